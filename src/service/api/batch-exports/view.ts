import { fieldsOfSettings } from '../../../foundation/domain/export-settings.ts';
import type { Static } from 'typebox';
import { type BatchExport, reasonOf } from '../../../foundation/domain/batch-export.ts';
import { toTimestamp, toTimestampOrNull } from '../../../foundation/domain/time.ts';
import type { Holes } from '../../../state/store/intervals/coverage.ts';
import {
  type ExportDetails,
  findExportDetails,
} from '../../../state/store/exports/export-lists.ts';
import { turnOfCode } from '../../../foundation/domain/causes.ts';
import type { Context } from '../../use-cases/context.ts';
import type { CreatedExport } from '../../use-cases/exports/create-export.ts';
import type { LeftOut } from '../../use-cases/exports/unpause-export.ts';
import { nextRunOf } from '../../use-cases/exports/schedule.ts';
import { runView } from '../runs/view.ts';
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

/** @param details undefined: there are none yet */
function view(
  { policy }: ViewContext,
  batchExport: BatchExport,
  details: ExportDetails | undefined,
): BatchExportView {
  const { id, destination, cadence } = batchExport;
  const holes = details?.holes;
  // An export without details was created now.
  const health = holes?.health ?? (batchExport.paused ? 'paused' : 'fine');
  return {
    id,
    team_id: batchExport.teamId,
    name: batchExport.name,
    destination: { type: destination.type, config: destination.config },
    secrets: Object.entries(destination.secretEnds ?? {}).map(([name, end]) => ({
      name,
      ends_with: end,
    })),
    interval: cadence.interval,
    paused: batchExport.paused,
    created_at: batchExport.createdAt,
    last_updated_at: batchExport.lastUpdatedAt,
    last_paused_at: batchExport.lastPausedAt,
    start_at: batchExport.startAt,
    end_at: batchExport.endAt,
    ...fieldsOfSettings(batchExport),
    late_since: batchExport.lateSince,
    latest_runs: (details?.latestRuns ?? []).map((run) => runView(run, policy.retry)),
    dsl_query: batchExport.dslQuery,
    filters: batchExport.filters && [...batchExport.filters],
    schema: batchExport.querySchema,
    model: batchExport.model,
    timezone: cadence.timezone,
    offset_day: cadence.offsetDay,
    offset_hour: cadence.offsetHour,
    transformations: batchExport.transformations,
    paused_reason: batchExport.pausedReason,
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
    failure_streak: batchExport.failureStreak,
    last_success_at: batchExport.lastSuccessAt,
  };
}

function lateRowsView(details: ExportDetails | undefined): BatchExportView['late_rows_added'] {
  const added = details?.lateRowsAdded ?? null;
  if (added === null) return null;
  const { rows, at, start, end } = added;
  return { rows, at, data_interval_start: start, data_interval_end: end };
}

export function unpausePreviewView({
  missed,
  missedIntervals,
  missing: { count, since },
}: LeftOut): Static<typeof UnpausePreview> {
  return {
    dry_run: true,
    missed_intervals: missedIntervals,
    missed: missed.map(({ start, end }) => ({ start: toTimestamp(start), end: toTimestamp(end) })),
    missing: { count, since: toTimestampOrNull(since) },
  };
}

export function missingView(holes: Holes | null | undefined): BatchExportView['missing'] {
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
