import { Type } from 'typebox';
import { toTimestamp } from '../../domain/time.ts';
import { listActivity, type Activity as StoredActivity } from '../../store/activity.ts';
import { previewSchedule } from '../../use-cases/exports/schedule.ts';
import { type Api, batchExportOf } from '../api.ts';
import { loadBatchExport } from '../batch-exports/load.ts';
import type { Family } from '../families.ts';
import { offsetEnvelope, pageOf } from '../lists/paging.ts';
import { OffsetPageOf, PageQuery } from '../lists/schema.ts';
import type { Deps } from '../options.ts';
import { describe, readExports, writeExports } from '../route-parts.ts';
import { errors, postErrors } from '../schemas/error.ts';
import { Ref } from '../schemas/nullable.ts';
import { Activity, DestinationTest, RowPreview, SchedulePreview } from './schema.ts';
import { testDestination } from './test-destination.ts';

const previewedIntervals = 10;
const previewedRows = 100;

/** What an export will do, whether it can, and what was done to it. */
export function insightRoutes(api: Api, family: Family, deps: Deps): void {
  const { previewRows } = deps;
  const { about, params } = describe(family);
  const onRequest = loadBatchExport('id');

  api.get(
    '/:id/schedule',
    {
      config: readExports,
      onRequest,
      schema: {
        ...about('previewSchedule', 'Preview the next 10 data intervals'),
        params: params('id'),
        response: { 200: Ref(SchedulePreview), ...errors() },
      },
    },
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
      config: { ...writeExports, changesNothing: true },
      onRequest,
      schema: {
        ...about('testDestination', "Run the destination's checks one by one"),
        params: params('id'),
        response: { 200: Ref(DestinationTest), ...postErrors() },
      },
    },
    async (request) => {
      const batchExport = batchExportOf(request);
      const source = await deps.checkSource?.(batchExport.model);
      const checks = await testDestination(request.context, deps, batchExport);
      const steps = source ? [...checks, source] : checks;
      return { passed: steps.every(({ passed }) => passed), steps: [...steps] };
    },
  );

  api.get(
    '/:id/preview',
    {
      config: readExports,
      onRequest,
      schema: {
        ...about('previewRows', 'Preview up to 100 rows as they would be exported'),
        params: params('id'),
        response: { 200: Ref(RowPreview), ...errors() },
      },
    },
    async (request) => {
      const { columns, rows } = await previewRows(batchExportOf(request), previewedRows);
      return { columns: [...columns], rows: rows.map((row) => [...row]) };
    },
  );

  api.get(
    '/:id/activity',
    {
      config: readExports,
      onRequest,
      schema: {
        ...about('listActivity', 'List who changed what, newest first'),
        params: params('id'),
        querystring: Type.Object(PageQuery),
        response: { 200: OffsetPageOf(Activity), ...errors() },
      },
    },
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
