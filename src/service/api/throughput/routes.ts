import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { Type } from 'typebox';
import { parseTime } from '../../../foundation/domain/parse-time.ts';
import { ceilInstant } from '../../../foundation/domain/time.ts';
import { listThroughput } from '../../../state/store/runs/worker-seconds.ts';
import { type Api, batchExportOf } from '../api.ts';
import { exportOperations, type Family } from '../operations.ts';
import { named, Nullable, Ref, Time } from '../schemas/shapes.ts';

/** Points of a chart: more are not seen apart. */
const maxPoints = 500;

export const Throughput = named(
  'Throughput',
  Type.Object(
    {
      results: Type.Array(
        Type.Object({
          data_interval_start: Time,
          data_interval_end: Time,
          rows: Type.Integer({ description: 'Of the current files.' }),
          bytes: Type.Integer({ description: 'Of the current files, as they landed.' }),
          run_id: Type.String({
            format: 'uuid',
            description: 'The run that wrote the files, or that found them unchanged.',
          }),
          waited_seconds: Nullable(
            Type.Number({
              description:
                'Seconds that this run waited for its first attempt after it was created.',
            }),
          ),
          duration_seconds: Nullable(
            Type.Number({
              description:
                'Duration of that run from its first attempt to its end, including waits between attempts.',
            }),
          ),
          delivery_delay_seconds: Nullable(
            Type.Number({
              description:
                'Seconds from the end of the interval to the commit of its first files. Null if the schedule did not ask for the interval, or if the run is no longer kept.',
            }),
          ),
        }),
        { description: 'Exported intervals, oldest first. Intervals without data are absent.' },
      ),
    },
    {
      description: 'Rows, bytes, run duration and delivery delay per interval.',
      examples: [
        {
          results: [
            {
              data_interval_start: '2024-03-01T00:00:00.000000Z',
              data_interval_end: '2024-03-01T01:00:00.000000Z',
              rows: 8_312,
              bytes: 1_048_576,
              run_id: '0193a6f4-54a1-7cc2-8a4b-8f4f9a0a9f10',
              waited_seconds: 5.3,
              duration_seconds: 2.4,
              delivery_delay_seconds: 9.8,
            },
          ],
        },
      ],
    },
  ),
);

/** The deliveries of an export, interval by interval, for charts. */
export function throughputRoutes(api: Api, family: Family): void {
  const { read } = exportOperations(family);
  api.get(
    '/:id/throughput',
    read('retrieveThroughput', 'Retrieve rows, bytes and duration per interval', ['id'], {
      querystring: Type.Object({
        before: Type.Optional({
          ...Time,
          description: 'Only intervals that start before it, to page back. Default: all.',
        }),
        limit: Type.Optional(
          Type.Integer({
            minimum: 1,
            maximum: maxPoints,
            default: 200,
            description: 'Maximum number of intervals. The newest ones are returned.',
          }),
        ),
      }),
      response: { 200: Ref(Throughput) },
    }),
    async (request) => {
      const { before, limit = 200 } = request.query;
      const bound = before === undefined ? null : parseTime(before);
      const intervals = await listThroughput(
        request.context.db,
        batchExportOf(request).id,
        bound && ceilInstant(bound.timestamp),
        limit,
      );
      return {
        results: intervals.map(({ startsAt, endsAt, ...interval }) => ({
          data_interval_start: startsAt,
          data_interval_end: endsAt,
          ...inSnakeCase(interval),
        })),
      };
    },
  );
}
