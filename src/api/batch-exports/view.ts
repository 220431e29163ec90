import type { BatchExport } from '../../domain/batch-export.ts';
import { toTimestamp } from '../../domain/time.ts';
import { findHoles, type Holes } from '../../store/coverage.ts';
import type { Sql } from '../../store/database.ts';
import { findLatestRuns, type Run } from '../../store/runs.ts';
import type { CreatedExport } from '../../use-cases/exports/create-export.ts';
import { nextRunOf } from '../../use-cases/exports/schedule.ts';
import { runView } from '../runs/view.ts';
import type { BatchExport as BatchExportView } from './schema.ts';

const latestRuns = 10;

/** Exports as the API shows them; reads all their latest runs in one query. */
export async function batchExportViews(
  sql: Sql,
  batchExports: readonly BatchExport[],
): Promise<BatchExportView[]> {
  const ids = batchExports.map(({ id }) => id);
  const latest = await findLatestRuns(sql, ids, latestRuns);
  const holes = await findHoles(sql, ids);
  return batchExports.map((batchExport) => view(batchExport, latest, holes));
}

export async function batchExportView(
  sql: Sql,
  batchExport: BatchExport,
  backfillId: string | null | undefined = null,
): Promise<BatchExportView> {
  const latest = await findLatestRuns(sql, [batchExport.id], latestRuns);
  const shown = view(batchExport, latest, await findHoles(sql, [batchExport.id]));
  return typeof backfillId === 'string' ? { ...shown, backfill_id: backfillId } : shown;
}

/** An export that was created now: it has no runs to read, unless a backfill was started with it. */
export async function createdExportView(
  sql: Sql,
  { batchExport, backfillId }: CreatedExport,
): Promise<BatchExportView> {
  return backfillId === null
    ? view(batchExport, new Map(), new Map())
    : batchExportView(sql, batchExport, backfillId);
}

function view(
  batchExport: BatchExport,
  latest: ReadonlyMap<string, readonly Run[]>,
  holes: ReadonlyMap<string, Holes>,
): BatchExportView {
  const { id, destination, cadence } = batchExport;
  const unsettledFrom = holes.get(id)?.unsettledFrom ?? null;
  return {
    id,
    team_id: batchExport.teamId,
    name: batchExport.name,
    destination: { type: destination.type, config: destination.config },
    interval: cadence.interval,
    paused: batchExport.paused,
    created_at: batchExport.createdAt,
    last_updated_at: batchExport.lastUpdatedAt,
    last_paused_at: batchExport.lastPausedAt,
    start_at: batchExport.startAt,
    end_at: batchExport.endAt,
    latest_runs: (latest.get(id) ?? []).map(runView),
    dsl_query: batchExport.dslQuery,
    schema: batchExport.querySchema,
    model: batchExport.model,
    timezone: cadence.timezone,
    offset_day: cadence.offsetDay,
    offset_hour: cadence.offsetHour,
    transformations: batchExport.transformations,
    paused_reason: batchExport.pausedReason,
    next_run_at: nextRunOf(batchExport),
    high_water_mark: batchExport.highWaterMark,
    unsettled_from: unsettledFrom === null ? null : toTimestamp(unsettledFrom),
    missing: missingView(holes.get(id)),
    failure_streak: batchExport.failureStreak,
    last_success_at: batchExport.lastSuccessAt,
  };
}

export function missingView(holes: Holes | undefined): BatchExportView['missing'] {
  const { count, since } = holes?.missing ?? { count: 0, since: null };
  return { count, since: since === null ? null : toTimestamp(since) };
}
