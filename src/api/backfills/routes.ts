import { Type } from 'typebox';
import { toTimestamp } from '../../domain/time.ts';
import { type BackfillWithProgress, findBackfill, listBackfills } from '../../store/backfills.ts';
import { averageRows } from '../../store/runs.ts';
import { backfillRefusal } from '../../use-cases/backfills/refusal.ts';
import {
  type BackfillProblem,
  previewBackfill,
  startBackfill,
} from '../../use-cases/backfills/start-backfill.ts';
import { refused } from '../../use-cases/outcome.ts';
import { cancelBackfill } from '../../use-cases/runs/cancel-work.ts';
import { type Api, batchExportOf, type Request } from '../api.ts';
import { accept, invalid, notFound } from '../api-error.ts';
import { loadBatchExport } from '../batch-exports/load.ts';
import { BatchExport } from '../batch-exports/schema.ts';
import { batchExportView } from '../batch-exports/view.ts';
import type { Family } from '../families.ts';
import { cursorEnvelope, placeOf } from '../lists/cursors.ts';
import { clampLimit } from '../lists/paging.ts';
import { CursorPageOf, CursorQuery } from '../lists/schema.ts';
import type { Deps } from '../options.ts';
import { describe, readExports, writeExports } from '../route-parts.ts';
import { errors, postErrors } from '../schemas/error.ts';
import { Ref } from '../schemas/nullable.ts';
import { isUuid } from '../validation/validator.ts';
import { backfillRequest } from './input.ts';
import { Backfill, BackfillBody, BackfillPreview, CancelBackfillBody } from './schema.ts';
import { backfillPreviewView, backfillView } from './view.ts';

const ordering = '-created_at';

/** Start a backfill, list the backfills of an export, retrieve and cancel one. */
export function backfillRoutes(api: Api, { context }: Deps, family: Family): void {
  const { db } = context;
  const { about, params } = describe(family);
  const onRequest = loadBatchExport(db, 'batch_export_id');
  const backfillOf = async (request: Request): Promise<BackfillWithProgress> => {
    const { id } = request.params as { id: string };
    const found = isUuid(id) ? await findBackfill(db, batchExportOf(request).id, id) : null;
    if (!found) throw notFound();
    return found;
  };

  api.post(
    '/:id/backfill',
    {
      config: writeExports,
      onRequest: loadBatchExport(db, 'id'),
      schema: {
        ...about('backfillBatchExport', 'Export a range of the past'),
        params: params('id'),
        body: BackfillBody,
        response: {
          200: Type.Union([Ref(BatchExport), Ref(BackfillPreview)]),
          ...postErrors(),
        },
      },
    },
    async (request) => {
      const batchExport = batchExportOf(request);
      const asked = backfillRequest(request.body);
      if (request.body.dry_run === true) {
        const preview = unlessRefused(await previewBackfill(context, batchExport, asked));
        return backfillPreviewView(preview, await averageRows(db, batchExport.id));
      }
      const { backfillId, range } = unlessRefused(await startBackfill(context, batchExport, asked));
      return {
        ...(await batchExportView(db, batchExport, backfillId)),
        backfill_start_at: toTimestamp(range.start),
        backfill_end_at: toTimestamp(range.end),
      };
    },
  );

  api.get(
    '/:batch_export_id/backfills',
    {
      config: readExports,
      onRequest,
      schema: {
        ...about('listBackfills', 'List the backfills of a batch export, newest first'),
        params: params('batch_export_id'),
        querystring: Type.Object(CursorQuery),
        response: { 200: CursorPageOf(Backfill), ...errors() },
      },
    },
    async (request) => {
      const { cursor, limit } = request.query;
      const page = await listBackfills(
        db,
        batchExportOf(request).id,
        placeOf(cursor, ordering),
        clampLimit(limit),
      );
      const keyOf = ({ id, createdAt }: BackfillWithProgress) => ({ id, at: createdAt });
      return cursorEnvelope(request, ordering, page, keyOf, backfillView);
    },
  );

  api.get(
    '/:batch_export_id/backfills/:id',
    {
      config: readExports,
      onRequest,
      schema: {
        ...about('retrieveBackfill', 'Retrieve a backfill and its progress'),
        params: params('batch_export_id', 'id'),
        response: { 200: Ref(Backfill), ...errors() },
      },
    },
    async (request) => backfillView(await backfillOf(request)),
  );

  api.post(
    '/:batch_export_id/backfills/:id/cancel',
    {
      config: writeExports,
      onRequest,
      schema: {
        ...about('cancelBackfill', 'End a backfill early'),
        params: params('batch_export_id', 'id'),
        body: CancelBackfillBody,
        response: { 200: Ref(Backfill), ...postErrors() },
      },
    },
    async (request) => {
      const { id, exportId } = await backfillOf(request);
      const { running = 'cancel' } = request.body;
      const cancelled = await cancelBackfill(context, exportId, id, running);
      if (!cancelled) {
        const detail = 'The backfill has ended: only a running one can be cancelled.';
        throw invalid({ code: 'invalid_input', detail, attr: null });
      }
      return backfillView(await backfillOf(request));
    },
  );
}

type Refusal = { readonly problem: BackfillProblem; readonly detail: string };

/** @throws ApiError for a refusal */
function unlessRefused<T extends object>(outcome: T | Refusal): T {
  if ('problem' in outcome) return accept(refused(backfillRefusal(outcome as Refusal)));
  return outcome;
}
