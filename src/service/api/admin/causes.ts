import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { type Static, Type } from 'typebox';
import { exportHealths } from '../../../foundation/domain/batch-export.ts';
import { turns } from '../../../foundation/domain/causes.ts';
import { taskActions } from '../../../foundation/domain/operator-task.ts';
import { notFound } from '../../../foundation/domain/problem.ts';
import {
  listCauses,
  listOperatorExports,
  type OperatorCause,
} from '../../../state/store/healing/operator-causes.ts';
import { findTask, listTasks } from '../../../state/store/healing/operator-tasks.ts';
import { describeCause, endTask, findCause, startTask } from '../../use-cases/operators/tasks.ts';
import { type Api, callerOf } from '../api.ts';
import { offsetEnvelope, pageOf } from '../lists/paging.ts';
import { OffsetPageOf, PageQuery } from '../lists/schema.ts';
import { errors, postErrors } from '../schemas/error.ts';
import { Nullable, named, Ref, Time } from '../schemas/shapes.ts';
import { operation } from './tenants.ts';

const Turn = Type.Enum([...turns], {
  description:
    'Who must act. ours: the operator of this service. source: the owner of the database that is exported. customer: the owner of the export.',
});
const Count = Type.Integer({ minimum: 0 });

const NextProbe = Nullable({
  ...Time,
  description: 'When Sluice tries it again by itself; null: it does not heal.',
});

export const Cause = named(
  'Cause',
  Type.Object({
    id: Type.String({ description: 'The same as long as the cause is.' }),
    turn: Turn,
    code: Type.String({
      description:
        'An error code, or verify.failed, intervals.missing, export.late or export.paused for exports that do not fail.',
    }),
    means: Type.String(),
    remedy: Type.String({ description: 'What to do.' }),
    place: Type.String({ description: 'The bucket or the model; empty if it is at no place.' }),
    organization_id: Nullable(
      Type.String({ format: 'uuid', description: 'Null: it is of several organizations.' }),
    ),
    organization_name: Nullable(Type.String()),
    organizations: Count,
    exports: Count,
    paused_exports: { ...Count, description: 'Those of them that Sluice paused.' },
    missing_intervals: { ...Count, description: 'Intervals of these exports without data.' },
    since: Nullable(Time),
    latest_error: Nullable(Type.String()),
    next: Type.String({ description: 'What happens next by itself.' }),
    next_probe_at: NextProbe,
  }),
);

export const OperatorExport = named(
  'OperatorExport',
  Type.Object({
    id: Type.String({ format: 'uuid' }),
    name: Type.String(),
    project_id: Type.Integer(),
    project_name: Type.String(),
    organization_id: Type.String({ format: 'uuid' }),
    organization_name: Type.String(),
    health: Type.Enum([...exportHealths]),
    cause_id: Nullable(Type.String({ description: 'Null: nothing is wrong with it.' })),
    code: Nullable(Type.String()),
    turn: Type.Unsafe<Static<typeof Turn> | null>({
      type: ['string', 'null'],
      enum: [...turns, null],
      description: 'Who must act; null: nothing is wrong with it.',
    }),
    since: Nullable(Time),
    missing_intervals: Count,
    paused: Type.Boolean(),
    latest_error: Nullable(Type.String()),
    next_probe_at: NextProbe,
    high_water_mark: Nullable(Time),
  }),
);

export const Task = named(
  'OperatorTask',
  Type.Object({
    id: Type.String({ format: 'uuid' }),
    action: Type.Enum([...taskActions]),
    cause: Type.String({ description: 'The cause, as it was when the task began.' }),
    code: Type.String(),
    status: Type.Enum(['Running', 'Completed', 'Cancelled']),
    requested_by: Nullable(Type.String({ format: 'uuid', description: "The operator's key." })),
    created_at: Time,
    finished_at: Nullable(Time),
    exports: Count,
    done_exports: Count,
    skipped_exports: Count,
    skipped_because: Type.Array(Type.Object({ reason: Type.String(), exports: Count }), {
      description: 'Why nothing was done to these exports; the ten most frequent reasons.',
    }),
    runs: { ...Count, description: 'Runs that it has made so far.' },
    completed_runs: Count,
    failed_runs: Count,
  }),
);

export const TaskPreview = named(
  'OperatorTaskPreview',
  Type.Object({
    dry_run: Type.Literal(true),
    action: Type.Enum([...taskActions]),
    organizations: Count,
    exports: Count,
    missing_intervals: {
      ...Count,
      description:
        'Intervals that would be exported again. A retry of paused exports also exports what the pause missed.',
    },
    paused_exports: {
      ...Count,
      description: 'Exports that Sluice paused and that would continue.',
    },
  }),
);

const search = {
  search: Type.Optional(
    Type.String({
      pattern: '\\S',
      maxLength: 400,
      description:
        'A customer: part of the name of an organization or a project, its id, or a tenant key. Or the id of an export.',
    }),
  ),
  turn: Type.Optional(Turn),
};
const OfCause = Type.Object({ cause_id: Type.String({ pattern: '^[0-9a-f]{32}$' }) });
const OfTask = Type.Object({ task_id: Type.String({ format: 'uuid' }) });
const StartTask = Type.Object(
  {
    action: Type.Enum([...taskActions], {
      description:
        'probe: the first interval without data of one export is exported again. retry: all intervals without data are, and exports that Sluice paused continue. pause: all exports are paused.',
    }),
    dry_run: Type.Optional(Type.Boolean({ description: 'Only return how much it would be.' })),
  },
  { additionalProperties: false },
);

/** What is wrong, over all customers, and what an operator does about it. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of routes
export function causeRoutes(api: Api): void {
  api.get(
    '/causes',
    operation('operator:read', 'listCauses', 'List what keeps exports from their data', {
      description:
        'A cause is one row however many exports it holds up. Those that hold up the most exports come first.',
      querystring: Type.Object({ ...PageQuery, ...search }),
      response: { 200: OffsetPageOf(Cause), ...errors() },
    }),
    async (request) => {
      const { search: text, turn = null } = request.query;
      const page = pageOf(request.query);
      const asked = { search: text ?? null, turn, causeId: null };
      const found = await listCauses(request.context.db, asked, page);
      return offsetEnvelope(request, page, found, causeView);
    },
  );

  api.get(
    '/exports',
    operation('operator:read', 'listAllExports', 'List the exports of all organizations', {
      description: 'Exports with a cause come first, the oldest cause before the others.',
      querystring: Type.Object({
        ...PageQuery,
        ...search,
        cause_id: Type.Optional(
          Type.String({ pattern: '\\S', description: 'Only the exports of this cause.' }),
        ),
        health: Type.Optional(
          Type.Array(Type.Enum([...exportHealths]), { description: 'May be repeated.' }),
        ),
      }),
      response: { 200: OffsetPageOf(OperatorExport), ...errors() },
    }),
    async (request) => {
      const { search: text, turn = null, cause_id: causeId = null, health = null } = request.query;
      const page = pageOf(request.query);
      const asked = { search: text ?? null, turn, causeId, healths: health };
      const found = await listOperatorExports(request.context.db, asked, page);
      return offsetEnvelope(request, page, found, ({ completeUpTo, teamId, ...one }) => ({
        ...inSnakeCase(one),
        project_id: teamId,
        high_water_mark: completeUpTo,
      }));
    },
  );

  api.post(
    '/causes/:cause_id/tasks',
    operation('operator:write', 'startTask', 'Probe, retry or pause all exports of a cause', {
      description:
        'The task runs in the background, behind live runs and in turns among customers. Retrieve it to see its progress; cancel it to stop it.',
      params: OfCause,
      body: StartTask,
      response: { 200: Ref(TaskPreview), 201: Ref(Task), ...postErrors() },
    }),
    async (request, reply) => {
      const { action, dry_run: isDry = false } = request.body;
      const cause = await findCause(request.context, request.params.cause_id);
      if (isDry) return previewOf(cause, action);
      const task = await startTask(request.context, cause, action, callerOf(request).id);
      reply.code(201);
      return inSnakeCase(task);
    },
  );

  api.get(
    '/tasks',
    operation('operator:read', 'listTasks', 'List the tasks of operators, newest first', {
      querystring: Type.Object(PageQuery),
      response: { 200: OffsetPageOf(Task), ...errors() },
    }),
    async (request) => {
      const page = pageOf(request.query);
      return offsetEnvelope(request, page, await listTasks(request.context.db, page), inSnakeCase);
    },
  );
  api.get(
    '/tasks/:task_id',
    operation('operator:read', 'retrieveTask', 'Retrieve a task with its progress', {
      params: OfTask,
      response: { 200: Ref(Task), ...errors() },
    }),
    async ({ context, params }) => {
      const found = await findTask(context.db, params.task_id);
      if (!found) throw notFound();
      return inSnakeCase(found);
    },
  );
  api.post(
    '/tasks/:task_id/cancel',
    operation('operator:write', 'cancelTask', 'Cancel a task', {
      description:
        'Exports that wait are left alone. Runs that it has made and that run are cancelled.',
      params: OfTask,
      response: { 200: Ref(Task), ...postErrors() },
    }),
    async ({ context, params }) => {
      if (!(await findTask(context.db, params.task_id))) throw notFound();
      await endTask(context, params.task_id);
      const found = await findTask(context.db, params.task_id);
      if (!found) throw notFound();
      return inSnakeCase(found);
    },
  );
}

function causeView(cause: OperatorCause): Static<typeof Cause> {
  const { means, remedy } = describeCause(cause);
  return {
    ...inSnakeCase(cause),
    means,
    remedy,
    next: nextOf(cause),
  };
}

/** What happens by itself. */
function nextOf({ nextAttemptAt, nextProbeAt, pausedExports, exports }: OperatorCause): string {
  if (nextProbeAt !== null) {
    return `Sluice tries it again at ${nextProbeAt}. Once it works, what lacks data runs by itself.`;
  }
  if (nextAttemptAt !== null) return `Sluice tries again at ${nextAttemptAt}.`;
  if (pausedExports === exports) {
    return 'Nothing: Sluice has paused them. After the cause is fixed, retry all.';
  }
  return 'The next interval of each export is tried as usual. Intervals without data wait for a retry.';
}

function previewOf(
  cause: OperatorCause,
  action: (typeof taskActions)[number],
): Static<typeof TaskPreview> {
  const isProbe = action === 'probe';
  const isPause = action === 'pause';
  return {
    dry_run: true,
    action,
    organizations: isProbe ? 1 : cause.organizations,
    exports: isProbe ? 1 : cause.exports,
    missing_intervals: isPause
      ? 0
      : isProbe
        ? Math.min(1, cause.missingIntervals)
        : cause.missingIntervals,
    paused_exports: action === 'retry' ? cause.pausedExports : 0,
  };
}
