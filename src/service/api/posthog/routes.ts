import { type Static, Type } from 'typebox';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import { beginOfDay } from '../../use-cases/exports/schedule.ts';
import { type Api, batchExportOf, type Request } from '../api.ts';
import { startAsked, startedView } from '../backfills/routes.ts';
import { BackfillBody } from '../backfills/schema.ts';
import type { DestinationTest } from '../insights/routes.ts';
import { destinationTestRoutes } from '../insights/unsaved.ts';
import { exportOperations, type Family } from '../operations.ts';
import type { Deps } from '../options.ts';
import { Nullable, OptionalInt, TextOrNull, Time, TimeOrNull } from '../shapes.ts';
import { otherTypes, posthogTag } from './names.ts';

/** A destination has one step: what Sluice tries needs the answers of what it tried before. */
const step = {
  name: 'Check the destination',
  description:
    'Connects, writes a marker object, finds out what the store supports, and removes the marker.',
};

const Step = Type.Object({
  name: Type.String(),
  description: Type.String(),
  result: Nullable(
    Type.Object({
      status: Type.Enum(['Passed', 'Failed']),
      message: TextOrNull('What is wrong, or a warning.'),
    }),
  ),
});

const StepNumber = OptionalInt({ minimum: 0, maximum: 0, description: 'There is one step, 0.' });

const Bound = Type.Optional(
  TimeOrNull(
    'A time with an offset. For an export per day or week also a date: its day begins at offset_hour in timezone.',
  ),
);

export function posthogRoutes(api: Api, family: Family, deps: Deps): void {
  const { read, write } = exportOperations({ ...family, tag: posthogTag });
  const { dry_run: _, ...options } = BackfillBody.properties;

  api.post(
    '/:batch_export_id/backfills',
    {
      ...write('createBackfill', 'Export a range of the past', ['batch_export_id'], {
        body: Type.Object({ ...options, start_at: Bound, end_at: Bound }),
        response: {
          201: Type.Object({
            backfill_id: Type.String({ format: 'uuid' }),
            start_at: Time,
            end_at: Time,
            total_runs: Type.Integer(),
          }),
        },
      }),
    },
    async (request, reply) => {
      const { body } = request;
      reply.code(201);
      return startedView(await startAsked(request, { ...body, ...boundsOf(request, body) }));
    },
  );

  api.get(
    '/test',
    read('listTestSteps', 'List the steps of a test of a destination', [], {
      querystring: Type.Object({
        destination: Type.Enum([...deps.rules.destinationTypes, ...otherTypes]),
      }),
      response: { 200: Type.Object({ steps: Type.Array(Step) }) },
    }),
    async () => ({ steps: [{ ...step, result: null }] }),
  );

  destinationTestRoutes(api, deps, {
    family,
    tag: posthogTag,
    paths: ['/run_test_step_new', '/:id/run_test_step'],
    operations: [
      ['runTestStepNew', 'Test a destination that is not saved'],
      ['runTestStep', 'Test the destination of an export'],
    ],
    more: { step: StepNumber },
    answer: Step,
    view: stepOf,
  });
}

function stepOf({ passed, steps }: Static<typeof DestinationTest>): Static<typeof Step> {
  const error = steps.find((each) => !each.passed)?.error ?? null;
  const warnings = steps.flatMap(({ warning }) => warning ?? []);
  const message = error ?? (warnings.length > 0 ? warnings.join(' ') : null);
  return { ...step, result: { status: passed ? 'Passed' : 'Failed', message } };
}

type Bounds = Pick<BackfillBody, 'start_at' | 'end_at'>;

/** The bounds of a body. For an export per day or week, a date is the begin of that day there. */
function boundsOf(request: Request, body: Bounds): Bounds {
  const { cadence } = batchExportOf(request);
  const read = (text: string | null) => {
    const begin = text === null ? null : beginOfDay(cadence, text);
    return begin === null ? text : toTimestamp(begin);
  };
  const { start_at: start = null, end_at: end = null } = body;
  return { start_at: read(start), end_at: read(end) };
}
