import type { Static } from 'typebox';
import { type BatchExport, reasonOf } from '../../../foundation/domain/batch-export.ts';
import { turnOfCode } from '../../../foundation/domain/causes.ts';
import { fieldsOfSettings } from '../../../foundation/domain/export-settings.ts';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { toTimestampOrNull } from '../../../foundation/domain/time.ts';
import {
  type ExportDetails,
  findExportDetails,
} from '../../../state/store/exports/export-lists.ts';
import type { Holes } from '../../../state/store/intervals/coverage.ts';
import type { Context } from '../../use-cases/context.ts';
import type { CreatedExport } from '../../use-cases/exports/create-export.ts';
import type { LeftOut } from '../../use-cases/exports/pause-export.ts';
import { nextRunOf } from '../../use-cases/exports/schedule.ts';
import { runView } from '../runs/view.ts';
import { boundsView } from '../shapes.ts';
import type { BatchExport as BatchExportView, UnpausePreview } from './schema.ts';

type ViewContext = Pick<Context, 'db' | 'policy'>;

/** Exports as the API shows them; reads what is beside their rows in one statement. */
export async function batchExportViews(
  context: ViewContext,
  batchExports: readonly BatchExport[],
): Promise<BatchExportView[]> {
  const ids = batchExports.map(({ id }) => id);
  const details = await findExportDetails(context.db, ids);
  return batchExports.map((item) => view(context, item, details.get(item.id)));
}

export async function batchExportView(
  context: ViewContext,
  batchExport: BatchExport,
  backfillId: string | null | undefined = null,
): Promise<BatchExportView> {
  const { id } = batchExport;
  const details = await findExportDetails(context.db, [id]);
  const shown = view(context, batchExport, details.get(id));
  return typeof backfillId === 'string' ? { ...shown, backfill_id: backfillId } : shown;
}

/** An export that was created now: it has no runs to read, unless a backfill was started with it. */
export async function createdExportView(
  context: ViewContext,
  { batchExport, backfillId }: CreatedExport,
): Promise<BatchExportView> {
  return backfillId === null
    ? view(context, batchExport, undefined)
    : batchExportView(context, batchExport, backfillId);
}

function view(
  { policy }: ViewContext,
  batchExport: BatchExport,
  details: ExportDetails | undefined,
): BatchExportView {
  const { destination, cadence, paused } = batchExport;
  const holes = details?.holes;
  // An export without details was created now.
  const health = holes?.health ?? (paused ? 'paused' : 'fine');
  const ends = Object.entries(destination.secretEnds ?? {});
  const { id, teamId, name, model, transformations, pausedReason } = batchExport;
  const { createdAt, lastUpdatedAt, lastPausedAt, startAt, endAt, lateSince } = batchExport;
  const { dslQuery, failureStreak, lastSuccessAt } = batchExport;
  return {
    ...inSnakeCase({ id, teamId, name, model, transformations, paused, pausedReason }),
    ...inSnakeCase({ createdAt, lastUpdatedAt, lastPausedAt, startAt, endAt, lateSince }),
    ...inSnakeCase({ dslQuery, failureStreak, lastSuccessAt, ...cadence }),
    ...fieldsOfSettings(batchExport),
    destination: { type: destination.type, config: destination.config },
    secrets: ends.map(([secret, end]) => ({ name: secret, ends_with: end })),
    latest_runs: (details?.latestRuns ?? []).map((run) => runView(run, policy.retry)),
    filters: batchExport.filters && [...batchExport.filters],
    schema: batchExport.querySchema,
    next_run_at: nextRunOf(batchExport),
    high_water_mark: toTimestampOrNull(batchExport.highWaterMark),
    unsettled_from: toTimestampOrNull(holes?.unsettledFrom ?? null),
    missing: missingView(holes),
    healing: healingView(holes),
    health,
    health_reason: reasonOf(batchExport, {
      health,
      failure: details?.failure ?? null,
      missing: holes?.missing ?? { count: 0, since: null },
    }),
    late_rows_added: lateRowsView(details),
  };
}

function lateRowsView(details: ExportDetails | undefined): BatchExportView['late_rows_added'] {
  if (!details?.lateRowsAdded) return null;
  const { rows, at, start, end } = details.lateRowsAdded;
  return { rows, at, data_interval_start: start, data_interval_end: end };
}

export const unpausePreviewView = (leftOut: LeftOut): Static<typeof UnpausePreview> => ({
  dry_run: true,
  missed_intervals: leftOut.missedIntervals,
  missed: leftOut.missed.map(boundsView),
  missing: missingView(leftOut),
});

export function missingView(holes: Pick<Holes, 'missing'> | null | undefined) {
  const { count, since } = holes?.missing ?? { count: 0, since: null };
  return { count, since: toTimestampOrNull(since) };
}

export function healingView(holes: Holes | null | undefined): BatchExportView['healing'] {
  const healing = holes?.healing ?? null;
  if (healing === null) return null;
  const { intervals, since, until, code, nextProbeAt } = healing;
  const turn = code && turnOfCode(code);
  return { intervals, since, until, code, turn, next_probe_at: nextProbeAt };
}
