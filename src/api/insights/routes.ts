import { Type } from 'typebox';
import { ownStepsOf } from '../../domain/recipe.ts';
import { toTimestamp } from '../../domain/time.ts';
import { listActivity, type Activity as StoredActivity } from '../../store/activity.ts';
import { findChain } from '../../store/chains.ts';
import { previewSchedule } from '../../use-cases/exports/schedule.ts';
import { refuseManySandboxes } from '../../use-cases/transformations/try-chain.ts';
import { type Api, actorOf, batchExportOf } from '../api.ts';
import { offsetEnvelope, pageOf } from '../lists/paging.ts';
import { OffsetPageOf, PageQuery } from '../lists/schema.ts';
import { costOfTrial, exportOperations, type Family } from '../operations.ts';
import type { Deps } from '../options.ts';
import { errors, postErrors } from '../schemas/error.ts';
import { Ref } from '../schemas/shapes.ts';
import { untilClosed } from '../until-closed.ts';
import { Activity, DestinationTest, RowPreview, SchedulePreview } from './schema.ts';
import { testDestination } from './test-destination.ts';

const previewedIntervals = 10;
const previewedRows = 100;

/** Previews of an export's schedule and rows, the test of its destination, and its activity. */
export function insightRoutes(api: Api, family: Family, deps: Deps): void {
  const { previewRows, previews, sandboxes, tests } = deps;
  const { read, write } = exportOperations(family);

  api.get(
    '/:id/schedule',
    read('previewSchedule', 'Preview the next 10 data intervals', ['id'], {
      response: { 200: Ref(SchedulePreview), ...errors() },
    }),
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

  api.post(
    '/:id/test',
    {
      ...write('testDestination', "Run the destination's checks one by one", ['id'], {
        response: { 200: Ref(DestinationTest), ...postErrors() },
      }),
      config: { scope: 'batch_export:write', changesNothing: true, cost: costOfTrial },
    },
    async (request, reply) => {
      const batchExport = batchExportOf(request);
      const { organizationId } = actorOf(request);
      const steps = await tests.use(organizationId, untilClosed(reply), async () => {
        const source = await deps.checkSource?.(batchExport.model);
        const checks = await testDestination(request.context, deps, batchExport);
        return source ? [...checks, source] : checks;
      });
      return { passed: steps.every(({ passed }) => passed), steps: [...steps] };
    },
  );

  api.get(
    '/:id/preview',
    {
      ...read('previewRows', 'Preview up to 100 rows as they would be exported', ['id'], {
        response: { 200: Ref(RowPreview), ...errors() },
      }),
      config: { scope: 'batch_export:read', cost: costOfTrial },
    },
    async (request, reply) => {
      const batchExport = batchExportOf(request);
      const { organizationId } = actorOf(request);
      const signal = untilClosed(reply);
      const { teamId, transformations } = batchExport;
      const preview = () =>
        previews.use(organizationId, signal, () => previewRows(batchExport, previewedRows, signal));
      const chain = transformations ? await findChain(request.context.db, teamId) : [];
      const hasSandbox = refuseManySandboxes(ownStepsOf(chain), null);
      const { columns, rows } = await (hasSandbox
        ? sandboxes.use(organizationId, signal, preview)
        : preview());
      return { columns: [...columns], rows: rows.map((row) => [...row]) };
    },
  );

  api.get(
    '/:id/activity',
    read('listActivity', 'List who changed what, newest first', ['id'], {
      querystring: Type.Object(PageQuery),
      response: { 200: OffsetPageOf(Activity), ...errors() },
    }),
    async (request) => {
      const page = pageOf(request.query);
      const subject = {
        subjectType: 'batch_export',
        subjectId: batchExportOf(request).id,
      } as const;
      const listed = await listActivity(request.context.db, subject, page);
      return offsetEnvelope(request, page, listed, activityView);
    },
  );
}

function activityView(activity: StoredActivity) {
  return {
    id: activity.id,
    action: activity.action,
    key_id: activity.keyId,
    key_name: activity.keyName,
    changes: activity.changes.map((change) => ({ ...change })),
    happened_at: activity.happenedAt,
  };
}
