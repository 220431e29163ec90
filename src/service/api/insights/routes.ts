import { Type } from 'typebox';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import { listActivity } from '../../../state/store/exports/activity.ts';
import { previewSchedule } from '../../use-cases/exports/schedule.ts';
import { type Api, batchExportOf } from '../api.ts';
import { offsetEnvelope, pageOf } from '../lists/paging.ts';
import { OffsetPageOf, PageQuery } from '../lists/schema.ts';
import { exportOperations, type Family } from '../operations.ts';
import { Ref } from '../schemas/shapes.ts';
import { Activity, SchedulePreview } from './schema.ts';

const previewedIntervals = 10;

/** The next intervals of an export, and its activity. */
export function insightRoutes(api: Api, family: Family): void {
  const { read } = exportOperations(family);

  api.get(
    '/:id/schedule',
    read('previewSchedule', 'Preview the next 10 data intervals', ['id'], {
      response: { 200: Ref(SchedulePreview) },
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
