import { Type } from 'typebox';
import { notFound, type Problem, Refusal } from '../../../foundation/domain/problem.ts';
import { ceilInstant, type Instant, toTimestamp } from '../../../foundation/domain/time.ts';
import {
  averageOfRuns,
  type BackfillWithProgress,
  findBackfill,
  listBackfills,
} from '../../../state/store/exports/backfills.ts';
import {
  type BackfillRequest,
  checkBackfill,
  previewBackfill,
  startBackfill,
} from '../../use-cases/backfills/start-backfill.ts';
import { runNow } from '../../use-cases/backfills/run-now.ts';
import { cancelBackfill } from '../../use-cases/runs/cancel-work.ts';
import { type Api, actorOf, batchExportOf, type Request } from '../api.ts';
import { refuseOtherRows } from '../batch-exports/same-rows.ts';
import { BatchExport } from '../batch-exports/schema.ts';
import { batchExportView } from '../batch-exports/view.ts';
import { lookAtIntervals } from '../insights/look.ts';
import { cursorEnvelope, positionOf } from '../lists/cursors.ts';
import { clampLimit } from '../lists/paging.ts';
import { CursorPageOf, CursorQuery } from '../lists/schema.ts';
import { exportOperations, type Family } from '../operations.ts';
import type { Deps } from '../options.ts';
import { Ref } from '../schemas/shapes.ts';
import { refusesAll } from '../validation/every-problem.ts';
import { isUuid } from '../validation/validator.ts';
import { Backfill, BackfillBody, BackfillPreview, CancelBackfillBody, RunNow } from './schema.ts';
import { backfillPreviewView, backfillView } from './view.ts';
import { parseTime } from '../../../foundation/domain/parse-time.ts';

const ordering = '-created_at';

/** Start a backfill, list the backfills of an export, retrieve and cancel one. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of routes
export function backfillRoutes(api: Api, family: Family, deps: Deps): void {
  const { read, write } = exportOperations(family);
  const backfillOf = async (request: Request): Promise<BackfillWithProgress> => {
    const { id } = request.params as { id: string };
    const backfill = isUuid(id)
      ? await findBackfill(request.context.db, batchExportOf(request).id, id)
      : null;
    if (!backfill) throw notFound();
    return backfill;
  };

  api.post(
    '/:id/backfill',
    {
      ...write('backfillBatchExport', 'Export a range of the past', ['id'], {
        body: BackfillBody,
        response: {
          200: Type.Union([Ref(BatchExport), Ref(BackfillPreview)]),
        },
      }),
      ...refusesAll({
        examine: (request, body) => problemsOf(request, body as BackfillBody),
        // The start is compared with the end.
        follow: { end_at: ['start_at'] },
      }),
    },
    async (request, reply) => {
      const batchExport = batchExportOf(request);
      if (request.body.dry_run === true) {
        const backfillRequest = await askedOf(request, request.body);
        const preview = await previewBackfill(request.context, batchExport, backfillRequest);
        const { intervals } = preview;
        const compared = await lookAtIntervals(deps, request, reply, batchExport, intervals);
        const average = await averageOfRuns(request.context.db, batchExport.id);
        return backfillPreviewView(preview, compared, average);
      }
      const { backfillId, range, totalRuns } = await startAsked(request, request.body);
      return {
        ...(await batchExportView(request.context, batchExport, backfillId)),
        backfill_start_at: toTimestamp(range.start),
        backfill_end_at: toTimestamp(range.end),
        backfill_total_runs: totalRuns,
      };
    },
  );

  api.post(
    '/:id/run_now',
    write(
      'runBatchExportNow',
      'Export what has ended and has no data; without a past, only the newest interval',
      ['id'],
      {
        response: { 200: Ref(RunNow) },
      },
    ),
    async (request) => {
      const ran = await runNow(request.context, batchExportOf(request));
      if ('reason' in ran) {
        return { backfill_id: null, start_at: null, end_at: null, total_runs: 0, ...ran };
      }
      const { backfillId, range, totalRuns } = ran.started;
      return {
        backfill_id: backfillId,
        start_at: toTimestamp(range.start),
        end_at: toTimestamp(range.end),
        total_runs: totalRuns,
        reason: null,
      };
    },
  );

  api.get(
    '/:batch_export_id/backfills',
    read(
      'listBackfills',
      'List the backfills of a batch export, newest first',
      ['batch_export_id'],
      {
        querystring: Type.Object(CursorQuery),
        response: { 200: CursorPageOf(Backfill) },
      },
    ),
    async (request) => {
      const { cursor, limit } = request.query;
      const page = await listBackfills(
        request.context.db,
        batchExportOf(request).id,
        positionOf(cursor, ordering),
        clampLimit(limit),
      );
      const keyOf = ({ id, createdAt }: BackfillWithProgress) => ({ id, at: createdAt });
      return cursorEnvelope(request, ordering, page, keyOf, backfillView);
    },
  );

  api.get(
    '/:batch_export_id/backfills/:id',
    read('retrieveBackfill', 'Retrieve a backfill and its progress', ['batch_export_id', 'id'], {
      response: { 200: Ref(Backfill) },
    }),
    async (request) => backfillView(await backfillOf(request)),
  );

  api.post(
    '/:batch_export_id/backfills/:id/cancel',
    write('cancelBackfill', 'End a backfill early', ['batch_export_id', 'id'], {
      body: CancelBackfillBody,
      response: { 200: Ref(Backfill) },
    }),
    async (request) => {
      const { id, exportId } = await backfillOf(request);
      const { running = 'cancel' } = request.body;
      await cancelBackfill(request.context, exportId, id, running);
      return backfillView(await backfillOf(request));
    },
  );
}

/** Starts the backfill of a body. @throws Refusal */
export async function startAsked(request: Request, body: BackfillBody) {
  return startBackfill(request.context, batchExportOf(request), {
    ...(await askedOf(request, body)),
    actor: actorOf(request),
  });
}

/** @throws Refusal if the body asks for other rows, or a bound has no offset */
async function askedOf(request: Request, body: BackfillBody): Promise<BackfillRequest> {
  refuseOtherRows(request);
  if (boundsWithoutOffset(body).length > 0) throw new Refusal(...(await problemsOf(request, body)));
  return backfillRequest(body);
}

/** Turns a validated body into the request of the use case. */
function backfillRequest(body: BackfillBody): BackfillRequest {
  const read = (text: string | null | undefined): Instant | null => {
    const parsed = text === undefined || text === null ? null : parseTime(text);
    return parsed && ceilInstant(parsed.timestamp);
  };
  return {
    startAt: read(body.start_at),
    endAt: read(body.end_at),
    order: body.order ?? 'oldest_first',
    reprocess: body.reprocess ?? 'all',
    dropsMissing: body.missing_rows === 'drop',
    shownRows: body.shown_rows ?? null,
    concurrency: body.concurrency ?? null,
  };
}

/** A bound needs an offset: a guess could export the wrong hours. */
function boundsWithoutOffset(body: BackfillBody): readonly string[] {
  return (['start_at', 'end_at'] as const).filter((name) => {
    const text = body[name];
    return typeof text === 'string' && parseTime(text)?.hasOffset !== true;
  });
}

/** Everything that is wrong with the bounds of a body. */
async function problemsOf(request: Request, body: BackfillBody): Promise<readonly Problem[]> {
  const withoutOffset = boundsWithoutOffset(body);
  const checked = await checkBackfill(
    request.context.db,
    batchExportOf(request),
    backfillRequest(body),
  );
  return [
    ...withoutOffset.map((attr): Problem => {
      const detail = 'Must have an offset from UTC, such as 2024-03-01T00:00:00Z.';
      return { code: 'invalid_input', detail, attr };
    }),
    ...checked.filter(({ attr }) => attr === null || !withoutOffset.includes(attr)),
  ];
}
