import { type Static, Type } from 'typebox';
import { exportHealths } from '../../../foundation/domain/batch-export.ts';
import { operatorActions, turns } from '../../../foundation/domain/causes.ts';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { inSeconds } from '../../../foundation/domain/time.ts';
import {
  listCauses,
  listOperatorExports,
  type OperatorCause,
} from '../../../state/store/healing/operator-causes.ts';
import { actOnExport, describeCause } from '../../use-cases/operators/act-on-export.ts';
import { type Api, callerOf } from '../api.ts';
import { OffsetPageOf, offsetEnvelope, PageQuery, pageOf } from '../lists.ts';
import { operatorOperation } from '../operations.ts';
import {
  Nullable,
  OptionalText,
  Ref,
  Resource,
  Text,
  TextOrNull,
  Time,
  TimeOrNull,
  UuidOrNull,
} from '../shapes.ts';

const Turn = Type.Enum([...turns], {
  description:
    'Who must act. ours: the operator of this service. source: the owner of the database that is exported. customer: the owner of the export.',
});
const Count = Type.Integer({ minimum: 0 });

const NextProbe = TimeOrNull('When Sluice tries it again by itself; null: it does not heal.');

export const Cause = Resource('Cause', null, {
  id: Text('The same as long as the cause is.'),
  turn: Turn,
  code: Text(
    'An error code, or verify.failed, intervals.missing, export.late or export.paused for exports that do not fail.',
  ),
  means: Type.String(),
  remedy: Text('What to do.'),
  place: Text('The bucket or the model; empty if it is at no place.'),
  organization_id: UuidOrNull('Null: it is of several organizations.'),
  organization_name: Nullable(Type.String()),
  organizations: Count,
  exports: Count,
  paused_exports: { ...Count, description: 'Those of them that Sluice paused.' },
  missing_intervals: { ...Count, description: 'Intervals of these exports without data.' },
  since: Nullable(Time),
  latest_error: Nullable(Type.String()),
  next: Text('What happens next by itself.'),
  next_probe_at: NextProbe,
});

export const OperatorExport = Resource('OperatorExport', null, {
  id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  project_id: Type.Integer(),
  project_name: Type.String(),
  organization_id: Type.String({ format: 'uuid' }),
  organization_name: Type.String(),
  health: Type.Enum([...exportHealths]),
  cause_id: TextOrNull('Null: nothing is wrong with it.'),
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
});

export const ActedOnExport = Resource('ActedOnExport', null, {
  backfill_ids: Type.Array(Type.String({ format: 'uuid' }), {
    description: 'Backfills that it has started.',
  }),
  passed_over: TextOrNull('Why nothing was done; null: it was.'),
});

const search = {
  search: OptionalText({
    pattern: '\\S',
    maxLength: 400,
    description:
      'A customer: part of the name of an organization or a project, its id, or a tenant key. Or the id of an export.',
  }),
  turn: Type.Optional(Turn),
};
const OfExport = Type.Object({ export_id: Type.String({ format: 'uuid' }) });
const Act = Type.Object(
  {
    action: Type.Enum([...operatorActions], {
      description:
        'probe: the first interval without data is exported again. retry: all intervals without data are, and an export that Sluice paused continues. pause: the export is paused.',
    }),
  },
  { additionalProperties: false },
);

export function causeRoutes(api: Api): void {
  api.get(
    '/causes',
    operatorOperation('operator:read', 'listCauses', 'List what keeps exports from their data', {
      description:
        'A cause is one row however many exports it holds up. Those that hold up the most exports come first.',
      querystring: Type.Object({ ...PageQuery, ...search }),
      response: { 200: OffsetPageOf(Cause) },
    }),
    async (request) => {
      const { search: text, turn = null } = request.query;
      const page = pageOf(request.query);
      const filters = { search: text ?? null, turn, causeId: null };
      const causes = await listCauses(request.context.db, filters, page);
      return offsetEnvelope(request, page, causes, causeView);
    },
  );

  api.get(
    '/exports',
    operatorOperation('operator:read', 'listAllExports', 'List the exports of all organizations', {
      description: 'Exports with a cause come first, the oldest cause before the others.',
      querystring: Type.Object({
        ...PageQuery,
        ...search,
        cause_id: OptionalText({ pattern: '\\S', description: 'Only the exports of this cause.' }),
        health: Type.Optional(
          Type.Array(Type.Enum([...exportHealths]), { description: 'May be repeated.' }),
        ),
      }),
      response: { 200: OffsetPageOf(OperatorExport) },
    }),
    async (request) => {
      const { search: text, turn = null, cause_id: causeId = null, health = null } = request.query;
      const page = pageOf(request.query);
      const filter = { search: text ?? null, turn, causeId, healths: health };
      const exports = await listOperatorExports(request.context.db, filter, page);
      return offsetEnvelope(request, page, exports, ({ completeUpTo, teamId, ...one }) => ({
        ...inSnakeCase(one),
        project_id: teamId,
        high_water_mark: completeUpTo,
      }));
    },
  );

  api.post(
    '/exports/:export_id/act',
    operatorOperation('operator:write', 'actOnExport', 'Probe, retry or pause an export', {
      description: 'Call it for each export of a cause. A repeated call does nothing twice.',
      params: OfExport,
      body: Act,
      response: { 200: Ref(ActedOnExport) },
    }),
    async (request) => {
      const { action } = request.body;
      const { id } = callerOf(request);
      const acted = await actOnExport(request.context, request.params.export_id, action, id);
      return { backfill_ids: [...acted.backfillIds], passed_over: acted.passedOver };
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

function nextOf({ nextAttemptAt, nextProbeAt, pausedExports, exports }: OperatorCause): string {
  if (nextProbeAt !== null) {
    return `Sluice tries it again at ${inSeconds(nextProbeAt)}. Once it works, what lacks data runs by itself.`;
  }
  if (nextAttemptAt !== null) return `Sluice tries again at ${inSeconds(nextAttemptAt)}.`;
  if (pausedExports === exports) {
    return 'Nothing: Sluice has paused them. After the cause is fixed, retry all.';
  }
  return 'The next interval of each export is tried as usual. Intervals without data wait for a retry.';
}
