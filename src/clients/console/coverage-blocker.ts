import type { Backfill, Coverage } from './api-types.ts';
import { plural } from './numbers.ts';

type Range = NonNullable<Coverage['blocker']>;

const reasons: Readonly<Record<Exclude<Range['state'], 'failed'>, string>> = {
  done: 'exported',
  accepted: 'accepted as it is',
  superseded: 'superseded by a later one',
  running: 'being exported',
  retrying: 'being retried: Sluice continues automatically',
  late_rows: 'exported, but rows may have come late that Sluice cannot add without you',
  unsettled: 'exported, but rows may still arrive: Sluice checks again automatically',
  healing:
    'not exported yet: Sluice tries again automatically and exports it once the cause is over',
  cancelled: 'not exported: the run was cancelled',
  missing: 'not exported: the run was deleted before it completed',
  paused: 'not exported: the export was paused',
  never_asked: 'not exported: neither the schedule nor a backfill asked for it',
};

/** @param waits whether a person has paused the export: nothing heals before it is unpaused */
export function describeBlocker(blocker: Range, waits: boolean): string {
  const { state, intervals } = blocker;
  if (state === 'failed') return describeFailed(blocker, waits);
  return `${plural(intervals, 'interval')} ${reasons[state]}.`;
}

function describeFailed({ intervals, healing }: Range, waits: boolean): string {
  const failed = `${plural(intervals, 'interval')} not exported: the run failed.`;
  const alone = intervals - healing;
  if (healing === 0) {
    return `${failed} Sluice does not try again by itself. Fix the cause, then export again.`;
  }
  const them = alone > 0 ? `${healing} of them` : intervals === 1 ? 'it' : 'them';
  const next = `Once the cause is fixed${waits ? ' and the export is unpaused' : ''}, Sluice exports ${them} by itself.`;
  return alone > 0 ? `${failed} ${next} Then export the others again.` : `${failed} ${next}`;
}

/** Time for the decision and the start of what has just become due. */
const graceMs = 360_000;

/** Says whether what holds the mark stays until an operator decides, or may. */
export function needsOperator({ state, end }: Range, nowMs: number): boolean {
  if (state === 'never_asked') return Date.parse(end) + graceMs < nowMs;
  return !['done', 'accepted', 'superseded', 'running', 'retrying', 'healing'].includes(state);
}

/** Of a backfill that exports these intervals again, and no others. */
export function reprocessOf({ state }: Range): Backfill['reprocess'] {
  return state === 'unsettled' || state === 'late_rows' ? 'all' : 'failed';
}
