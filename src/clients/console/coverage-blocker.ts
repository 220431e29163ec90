import type { Backfill, Coverage } from './api-types.ts';
import { plural } from './numbers.ts';

type Range = NonNullable<Coverage['blocker']>;

const reasons: Readonly<Record<Range['state'], string>> = {
  done: 'exported',
  accepted: 'accepted as it is',
  running: 'being exported',
  retrying: 'being retried: Sluice continues automatically',
  late_rows: 'exported, but rows may have come late that Sluice cannot add without you',
  unsettled: 'exported, but rows may still arrive: Sluice checks again automatically',
  healing:
    'not exported yet: Sluice tries again automatically and exports it once the cause is over',
  failed: 'not exported: the run failed. Fix the cause, then export again',
  cancelled: 'not exported: the run was cancelled',
  missing: 'not exported: the run was deleted before it completed',
  paused: 'not exported: the export was paused',
  never_asked: 'not exported: neither the schedule nor a backfill asked for it',
};

/** `3 intervals: not exported: …`, one sentence. */
export function describeBlocker({ state, intervals }: Range): string {
  return `${plural(intervals, 'interval')} ${reasons[state]}.`;
}

/** Time for the decision and the start of what has just become due. */
const graceMs = 360_000;

/** Whether what holds the mark stays until an operator decides, or may. */
export function needsOperator({ state, end }: Range, nowMs: number): boolean {
  if (state === 'never_asked') return Date.parse(end) + graceMs < nowMs;
  return !['done', 'accepted', 'running', 'retrying', 'healing'].includes(state);
}

/** Of a backfill that exports these intervals again, and no others. */
export function reprocessOf({ state }: Range): Backfill['reprocess'] {
  return state === 'unsettled' || state === 'late_rows' ? 'all' : 'failed';
}
