import { Type } from 'typebox';
import { invalid, orNotFound, type Problem, Refusal } from '../../../foundation/domain/problem.ts';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import {
  ceilInstant,
  floorInstant,
  type Instant,
  type Timestamp,
  toTimestamp,
} from '../../../foundation/domain/time.ts';
import {
  averageOfRuns,
  type BackfillWithProgress,
  findBackfill,
  listBackfills,
} from '../../../state/store/exports/backfills.ts';
import type { ComparedInterval, Comparison } from '../../use-cases/backfills/compare-rows.ts';
import {
  type BackfillRequest,
  checkBackfill,
  type BackfillPreview as Preview,
  previewBackfill,
  runNow,
  type StartedBackfill,
  startBackfill,
} from '../../use-cases/backfills/start-backfill.ts';
import { cancelBackfill } from '../../use-cases/runs/cancel-work.ts';
import { type Api, actorOf, batchExportOf, type Request } from '../api.ts';
import { hasOffset, needsOffset, readTime } from '../batch-exports/input.ts';
import { refuseOtherRows } from '../batch-exports/load.ts';
import { BatchExport } from '../batch-exports/schema.ts';
import { batchExportView } from '../batch-exports/view.ts';
import { lookAtIntervals } from '../insights/look.ts';
import { CursorPageOf, CursorQuery, clampLimit, cursorEnvelope, positionOf } from '../lists.ts';
import { exportOperations, type Family } from '../operations.ts';
import type { Deps } from '../options.ts';
import { answers, boundsView, Ref } from '../shapes.ts';
import { refusesAll } from '../validation/every-problem.ts';
import { isUuid } from '../validation/validator.ts';
import { Backfill, BackfillBody, BackfillPreview, CancelBackfillBody, RunNow } from './schema.ts';

const ordering = '-created_at';
const listSummary = 'List the backfills of a batch export, newest first';
const runNowSummary =
  'Export what has ended and has no data; without a past, only the newest interval';

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of routes
export function backfillRoutes(api: Api, family: Family, deps: Deps): void {
  const { read, write } = exportOperations(family);
  const backfillOf = async (request: Request) => {
    const { id } = request.params as { id: string };
    const { db } = request.context;
    const { id: exportId } = batchExportOf(request);
    return orNotFound(isUuid(id) ? await findBackfill(db, exportId, id) : null);
  };

  api.post(
    '/:id/backfill',
    {
      ...write('backfillBatchExport', 'Export a range of the past', ['id'], {
        body: BackfillBody,
        response: { 200: Type.Union([Ref(BatchExport), Ref(BackfillPreview)]) },
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
    write('runBatchExportNow', runNowSummary, ['id'], answers(RunNow)),
    async (request) => {
      const ran = await runNow(request.context, batchExportOf(request));
      if ('reason' in ran) {
        return { backfill_id: null, start_at: null, end_at: null, total_runs: 0, ...ran };
      }
      return { ...startedView(ran.started), reason: null };
    },
  );

  api.get(
    '/:batch_export_id/backfills',
    read('listBackfills', listSummary, ['batch_export_id'], {
      querystring: Type.Object(CursorQuery),
      response: { 200: CursorPageOf(Backfill) },
    }),
    async (request) => {
      const { cursor, limit } = request.query;
      const { db } = request.context;
      const { id: exportId } = batchExportOf(request);
      const position = positionOf(cursor, ordering);
      const page = await listBackfills(db, exportId, position, clampLimit(limit));
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

export const startedView = ({ backfillId, range, totalRuns }: StartedBackfill) => ({
  backfill_id: backfillId,
  start_at: toTimestamp(range.start),
  end_at: toTimestamp(range.end),
  total_runs: totalRuns,
});

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

function backfillRequest(body: BackfillBody): BackfillRequest {
  const read = (text: string | null | undefined): Instant | null =>
    typeof text === 'string' ? ceilInstant(readTime(text)) : null;
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

function boundsWithoutOffset(body: BackfillBody): readonly string[] {
  return (['start_at', 'end_at'] as const).filter((name) => {
    const text = body[name];
    return typeof text === 'string' && !hasOffset(text);
  });
}

async function problemsOf(request: Request, body: BackfillBody): Promise<readonly Problem[]> {
  const withoutOffset = boundsWithoutOffset(body);
  const { db } = request.context;
  const checked = await checkBackfill(db, batchExportOf(request), backfillRequest(body));
  return [
    ...withoutOffset.map((attr) => invalid(attr, needsOffset)),
    ...checked.filter(({ attr }) => attr === null || !withoutOffset.includes(attr)),
  ];
}

function backfillView(backfill: BackfillWithProgress): Backfill {
  const { exportId, range, dropsMissing, rows, bytes, ...others } = backfill;
  const { plannedTo: _, elapsedMs: __, ...shown } = others;
  return {
    ...inSnakeCase(shown),
    batch_export: exportId,
    start_at: toTimestamp(range.start),
    end_at: toTimestamp(range.end),
    missing_rows: dropsMissing ? 'drop' : 'keep',
    records_completed: rows,
    bytes_exported: bytes,
    progress: progressOf(backfill),
    eta: etaOf(backfill),
  };
}

function progressOf({ status, finishedRuns, totalRuns }: BackfillWithProgress): number {
  if (status === 'Completed' || totalRuns === 0) return status === 'Completed' ? 1 : 0;
  return Math.min(1, finishedRuns / totalRuns);
}

/** An estimate from less than this share of the runs is often wrong by hours. */
const leastProgress = 0.05;

function etaOf(backfill: BackfillWithProgress): Timestamp | null {
  const progress = progressOf(backfill);
  if (backfill.status !== 'Running' || progress < leastProgress) return null;
  const totalMs = backfill.elapsedMs / progress;
  return toTimestamp(floorInstant(backfill.createdAt) + Math.round(totalMs));
}

function backfillPreviewView(
  preview: Preview,
  { intervals, leftOut }: Comparison,
  average: { readonly rows: number | null; readonly bytes: number | null },
): BackfillPreview {
  const estimate = (each: number | null) =>
    each === null ? null : Math.round(each * preview.totalRuns);
  return {
    dry_run: true,
    start_at: toTimestamp(preview.range.start),
    end_at: toTimestamp(preview.range.end),
    total_runs: preview.totalRuns,
    skipped: preview.skipped,
    intervals: intervals.map(comparedView),
    totals: totalsView(preview, intervals, leftOut),
    already_completed: preview.alreadyCompleted.map(boundsView),
    estimated_rows: estimate(average.rows),
    estimated_bytes: estimate(average.bytes),
  };
}

function comparedView({ start, end, deliveredRows, rowsNow, wouldGo }: ComparedInterval) {
  return {
    ...boundsView({ start, end }),
    delivered_rows: deliveredRows,
    rows_now: rowsNow,
    ...wouldGoView(wouldGo),
  };
}

function wouldGoView(wouldGo: ComparedInterval['wouldGo']) {
  const is = wouldGo && (wouldGo.isExact ? ('exact' as const) : ('at_least' as const));
  return { would_go: wouldGo?.rows ?? null, would_go_is: is };
}

/** A sum of what is known is a lower bound of the whole. */
function totalsView(
  { totalRuns, deliveredRows }: Preview,
  intervals: readonly ComparedInterval[],
  leftOut: string | null,
): BackfillPreview['totals'] {
  const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0);
  const seen = intervals.flatMap(({ rowsNow }) => rowsNow ?? []);
  const going = intervals.flatMap(({ wouldGo }) => wouldGo ?? []);
  // Intervals that are not listed may have delivered rows too.
  const isListed = sum(intervals.map((one) => one.deliveredRows)) === deliveredRows;
  const isWhole = isListed && leftOut === null;
  const isExact = isWhole && going.every((one) => one.isExact);
  const wouldGo =
    isWhole || seen.length > 0 ? { rows: sum(going.map(({ rows }) => rows)), isExact } : null;
  const more = `${totalRuns - intervals.length} intervals are not in this list; those with delivered rows were not compared.`;
  const reasons = [leftOut, isListed ? null : more].flatMap((reason) => reason ?? []);
  return {
    delivered_rows: deliveredRows,
    rows_now: isWhole ? sum(seen) : null,
    ...wouldGoView(wouldGo),
    compared_intervals: seen.length,
    left_out: reasons.length === 0 ? null : reasons.join(' '),
  };
}
