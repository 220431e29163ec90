import type { BatchExport } from './types.ts';

/** The most urgent state of an export comes first. */
export const healthStates = ['failing', 'incomplete', 'late', 'paused', 'fine'] as const;
export type Health = (typeof healthStates)[number];

const lengths: Readonly<Record<string, number>> = {
  hour: 3_600_000,
  day: 86_400_000,
  week: 604_800_000,
};
/** Time for the jitter of a run's start and for the run itself. */
const graceMs = 360_000;
const dayMs = 86_400_000;

/** @param nowMs by the service's clock */
export function healthOf(batchExport: BatchExport, nowMs: number): Health {
  const { missing, paused, failure_streak: streak, latest_runs: runs } = batchExport;
  if (streak > 0) return 'failing';
  if (paused) return missing.count > 0 ? 'incomplete' : 'paused';
  const ended = runs.find(({ status }) => status !== 'Starting' && status !== 'Running');
  if (ended?.status === 'Failed' || ended?.status === 'FailedRetryable') return 'failing';
  if (missing.count > 0) return 'incomplete';
  return intervalsBehind(batchExport, nowMs) > 1 ? 'late' : 'fine';
}

/** Whole intervals between the high-water mark and now, after a grace period for the run. */
export function intervalsBehind(
  { high_water_mark: mark, created_at: created, end_at: end, interval }: BatchExport,
  nowMs: number,
): number {
  const length = intervalMs(interval);
  if (length === null) return 0;
  // A day can have 25 hours.
  const slack = graceMs + (length >= dayMs ? 3_600_000 : 0);
  // Before its first completed interval an export is due one interval after it was made.
  const since = mark === null ? Date.parse(created) + length : Date.parse(mark);
  const until = end === null ? nowMs : Math.min(nowMs, Date.parse(end));
  return Math.max(0, Math.floor((until - since - slack) / length));
}

function intervalMs(interval: string): number | null {
  const minutes = /^every (\d+) minutes$/.exec(interval)?.[1];
  return minutes === undefined ? (lengths[interval] ?? null) : Number(minutes) * 60_000;
}

/** Why an export has its state, in a few words; empty if it is fine. */
export function reasonOf(batchExport: BatchExport, health: Health, nowMs: number): string {
  const { missing, latest_runs: runs } = batchExport;
  switch (health) {
    case 'failing': {
      const error = runs.find(({ latest_error }) => latest_error !== null)?.latest_error;
      return `${batchExport.paused ? 'paused; ' : ''}${error ?? 'see its runs'}`;
    }
    case 'incomplete':
      return `${missing.count} ${missing.count === 1 ? 'interval' : 'intervals'} without data since ${missing.since ?? '?'}`;
    case 'late': {
      const behind = intervalsBehind(batchExport, nowMs);
      return `${behind} intervals behind`;
    }
    case 'paused':
      return batchExport.paused_reason ?? 'by a person';
    case 'fine':
      return '';
  }
}
