import type { ExportSummary, Health, Run, RunSummary } from './api-types.ts';
import { plural } from './numbers.ts';

const lengths: Readonly<Record<string, number>> = {
  hour: 3_600_000,
  day: 86_400_000,
  week: 604_800_000,
};

/** Milliseconds of an interval; a day has 24 hours. Null for an unknown interval. */
export function intervalMs(interval: string): number | null {
  const minutes = /^every (\d+) minutes$/.exec(interval)?.[1];
  return minutes === undefined ? (lengths[interval] ?? null) : Number(minutes) * 60_000;
}

/** `every hour`, `every minute`, `every 5 minutes` */
export function describeInterval(interval: string): string {
  if (interval === 'every 1 minutes') return 'every minute';
  return interval.startsWith('every') ? interval : `every ${interval}`;
}

/** Time for the jitter of a run's start and for the run itself. */
const graceMs = 360_000;

/** Whole intervals between the high-water mark and the newest possible one; null before the first mark. */
export function intervalsBehind(
  { high_water_mark: mark, interval }: Pick<ExportSummary, 'high_water_mark' | 'interval'>,
  nowMs: number,
): number | null {
  const length = intervalMs(interval);
  if (mark === null || length === null) return null;
  // A day can have 25 hours.
  const slack = graceMs + (length >= 86_400_000 ? 3_600_000 : 0);
  return Math.max(0, Math.floor((nowMs - Date.parse(mark) - slack) / length));
}

/** `4 intervals without data`; null if there is none. */
export function describeMissing({ missing }: Pick<ExportSummary, 'missing'>): string | null {
  if (missing.count === 0) return null;
  const count = plural(missing.count, 'interval');
  return `${missing.count >= countedMissing ? 'at least ' : ''}${count} without data`;
}

/** `3 late rows were added` */
export const describeAdded = (rows: number): string =>
  `${plural(rows, 'late row')} ${rows === 1 ? 'was' : 'were'} added`;

/** A sentence about a run that looks for late rows. */
export function describeLateRows({ status, records_completed: rows }: Run): string {
  return status === 'Completed' ? describeAdded(rows ?? 0) : 'adds late rows';
}

/** The API counts no more. */
const countedMissing = 1_000;

/** `up to date` (not if an interval has no data or may get rows), `3 intervals behind`; null without a mark. */
export function describeLag(batchExport: ExportSummary, nowMs: number): string | null {
  const behind = intervalsBehind(batchExport, nowMs);
  if (behind === null) return null;
  if (behind > 0) return `${plural(behind, 'interval')} behind`;
  const { missing, unsettled_from: unsettled, health } = batchExport;
  return missing.count > 0 || unsettled !== null || health === 'late' ? null : 'up to date';
}

const allHealths: Readonly<Record<Health, true>> = {
  failing: true,
  late: true,
  incomplete: true,
  paused: true,
  fine: true,
};
/** The most urgent first. The compiler reports a missing name. */
export const healths = Object.keys(allHealths) as Health[];

/** The newest run that failed, of an export that is failing or was paused before it recovered. */
export function failureOf<R extends RunSummary>({
  latest_runs: runs,
  health,
}: {
  readonly latest_runs: readonly R[];
  readonly health: Health;
}): R | null {
  const isFailure = ({ status }: R) => status === 'Failed' || status === 'FailedRetryable';
  if (health === 'failing') return runs.find(isFailure) ?? null;
  if (health !== 'paused') return null;
  const ended = runs.find((run) => hasEnded(run) && run.status !== 'Cancelled');
  return ended && isFailure(ended) ? ended : null;
}

export function hasEnded({ status }: Pick<RunSummary, 'status'>): boolean {
  return status !== 'Starting' && status !== 'Running';
}

/** It has ended without files. */
export const hasFailed = (run: Pick<Run, 'status'>): boolean =>
  hasEnded(run) && run.status !== 'Completed';

/** Says whether a run is waiting or live. */
export function isBusy({ latest_runs }: Pick<ExportSummary, 'latest_runs'>): boolean {
  return latest_runs.some((run) => !hasEnded(run));
}

/** The destination in a few words: `S3 · my-bucket/events`. */
export function describeDestination({ destination }: Pick<ExportSummary, 'destination'>): string {
  const { type, config } = destination;
  const words = [config.bucket_name ?? config.directory, config.prefix]
    .filter((part) => typeof part === 'string' && part !== '')
    .join('/');
  return words === '' ? type : `${type} · ${words}`;
}
