import { type Static, Type } from 'typebox';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import { listActivity } from '../../../state/store/exports/activity.ts';
import { previewSchedule } from '../../use-cases/exports/schedule.ts';
import { type Api, batchExportOf } from '../api.ts';
import { OffsetPageOf, offsetEnvelope, PageQuery, pageOf } from '../lists.ts';
import { exportOperations, type Family } from '../operations.ts';
import { answers, Int, Nullable, Resource, Text, TextOrNull, Time, UuidOrNull } from '../shapes.ts';

const SchedulePreview = Resource('SchedulePreview', 'The next 10 data intervals.', {
  results: Type.Array(
    Type.Object({
      data_interval_start: Time,
      data_interval_end: Time,
      local_start: Text('With the offset of the zone.'),
      local_end: Text('With the offset of the zone.'),
      timezone: Type.String(),
      hours: Type.Number({ description: 'The length: a day of a clock change has 23 or 25.' }),
      fate: Type.Enum(['ran', 'paused', 'outside_window'], {
        description: 'What will happen to it by the current schedule.',
      }),
    }),
  ),
});

export const DestinationTest = Resource(
  'DestinationTest',
  'The checks of a destination, one by one.',
  {
    passed: Type.Boolean(),
    steps: Type.Array(
      Type.Object({
        step: Type.String(),
        passed: Type.Boolean(),
        error: TextOrNull('What is wrong and what to do.'),
        warning: TextOrNull('A guarantee that is weaker at this store.'),
      }),
      { description: 'In the order of the checks. They end at the first that fails.' },
    ),
  },
);

export const Row = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  additionalProperties: true,
});
const Value = Type.Unsafe<unknown>({});

const TracedRow = Type.Object({
  row: Row,
  result: Nullable({ ...Row, description: 'The row as it would be exported; null if it left.' }),
  steps: Type.Array(
    Type.Object({
      step: Int('Id of its config, or its place in configs.'),
      name: Type.String(),
      fate: Type.Enum(['kept', 'dropped', 'rejected']),
      error: Nullable(Type.String()),
      changes: Type.Array(
        Type.Object({
          path: Type.String(),
          kind: Type.Enum(['added', 'removed', 'changed'], {
            description:
              '`added`: the value did not exist before. `removed`: the value no longer exists.',
          }),
          before: Value,
          after: Value,
        }),
        { description: 'Columns, and properties of JSON columns, that it changed.' },
      ),
      microseconds: Type.Integer(),
    }),
  ),
});

export const RowPreview = Resource('RowPreview', 'Rows as they would be exported.', {
  columns: Type.Array(Type.Object({ name: Type.String(), type: Type.String() })),
  rows: Type.Array(Type.Array(Value), {
    description: 'Values in the order of the columns. Empty with a trace.',
  }),
  trace: Type.Unsafe<readonly Static<typeof TracedRow>[] | null>({
    type: ['array', 'null'],
    items: TracedRow,
    description: 'What each step does to each row. Null without a trace.',
  }),
  left_out: TextOrNull(
    'What the answer leaves out, in a sentence. Null: nothing. An answer has at most 16 MiB of values. The first rows of a trace get the room first, or the newest rows without one.',
  ),
});

const Activity = Resource('Activity', 'Who changed what, and when.', {
  id: Type.Integer(),
  action: Text('created, updated, paused, unpaused, deleted …'),
  key_id: UuidOrNull('The API key of the request.'),
  key_name: Nullable(Type.String()),
  changes: Type.Array(
    Type.Object({
      field: Type.String(),
      before: Type.Unsafe<unknown>({}),
      after: Type.Unsafe<unknown>({}),
    }),
    {
      description:
        'Values of secrets are masked. Of changes over 8 KiB, large values show only their beginning.',
    },
  ),
  happened_at: Time,
});

const previewedIntervals = 10;

export function insightRoutes(api: Api, family: Family): void {
  const { read } = exportOperations(family);

  api.get(
    '/:id/schedule',
    read('previewSchedule', 'Preview the next 10 data intervals', ['id'], answers(SchedulePreview)),
    async (request) => {
      const next = await previewSchedule(
        request.context,
        batchExportOf(request),
        previewedIntervals,
      );
      return {
        results: next.map(({ interval, localStart, localEnd, timezone, hours, fate }) => ({
          data_interval_start: toTimestamp(interval.start),
          data_interval_end: toTimestamp(interval.end),
          local_start: localStart,
          local_end: localEnd,
          timezone,
          hours,
          fate,
        })),
      };
    },
  );

  api.get(
    '/:id/activity',
    read('listActivity', 'List who changed what, newest first', ['id'], {
      querystring: Type.Object(PageQuery),
      response: { 200: OffsetPageOf(Activity) },
    }),
    async (request) => {
      const page = pageOf(request.query);
      const subject = {
        subjectType: 'batch_export',
        subjectId: batchExportOf(request).id,
      } as const;
      const listed = await listActivity(request.context.db, subject, page);
      return offsetEnvelope(request, page, listed, inSnakeCase);
    },
  );
}
