import { type Static, Type } from 'typebox';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import { beginOfDay } from '../../use-cases/backfills/begin-of-day.ts';
import { type Api, batchExportOf, type Request } from '../api.ts';
import { startAsked } from '../backfills/routes.ts';
import { BackfillBody } from '../backfills/schema.ts';
import { destinationTests, trial } from '../insights/unsaved.ts';
import type { DestinationTest } from '../insights/schema.ts';
import { exportOperations, type Family } from '../operations.ts';
import type { Deps } from '../options.ts';
import { otherTypes, posthogTag } from './names.ts';
import { Nullable, Time } from '../schemas/shapes.ts';

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
      message: Nullable(Type.String({ description: 'What is wrong, or a warning.' })),
    }),
  ),
});

const StepNumber = Type.Optional(
  Type.Integer({ minimum: 0, maximum: 0, description: 'There is one step, 0.' }),
);

const Bound = Type.Optional(
  Nullable({
    ...Time,
    description:
      'A time with an offset. For an export per day or week also a date: its day begins at offset_hour in timezone.',
  }),
);

/** Operations that today's clients of PostHog call, beside those that have the same form here. */
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
      const started = await startAsked(request, { ...body, ...boundsOf(request, body) });
      reply.code(201);
      return {
        backfill_id: started.backfillId,
        start_at: toTimestamp(started.range.start),
        end_at: toTimestamp(started.range.end),
        total_runs: started.totalRuns,
      };
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

  const tests = destinationTests(family, deps, { step: StepNumber });
  const { newBody, newTest, testNew, savedBody, changedTest, testSaved } = tests;
  api.post(
    '/run_test_step_new',
    {
      ...newTest,
      ...write('runTestStepNew', 'Test a destination that is not saved', [], {
        body: newBody,
        response: { 200: Step },
      }),
      config: trial,
    },
    async (request, reply) => stepOf(await testNew(request, reply)),
  );
  api.post(
    '/:id/run_test_step',
    {
      ...changedTest,
      ...write('runTestStep', 'Test the destination of an export', ['id'], {
        body: savedBody,
        response: { 200: Step },
      }),
      config: trial,
    },
    async (request, reply) => stepOf(await testSaved(request, reply)),
  );
}

/** The one step, with the first error or all warnings. */
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
