/** The intervals that an unpause with `{"backfill": true}` exports. */

import type { Schedule } from '../../foundation/domain/schedule.ts';
import type { DataInterval, Instant } from '../../foundation/domain/time.ts';
import { newestGate } from './schedule.ts';
import { boundAfter, boundAtOrBefore, boundBefore, type Timeline } from './timeline.ts';

/**
 * The intervals that the pause, still open at `now`, kept from running. Adjacent ones are joined; oldest
 * first. Empty for an export that is not paused. Ask before `unpause`.
 */
export function missedWhilePaused(
  schedule: Schedule,
  timeline: Timeline,
  now: Instant,
): readonly DataInterval[] {
  const { pausedSince } = newestGate(schedule);
  if (pausedSince === null) return [];
  const { gates } = schedule;
  const ranges: DataInterval[] = [];
  gates.forEach((gate, index) => {
    if (gate.pausedSince !== pausedSince) return;
    const until = gates[index + 1]?.since ?? now;
    const from = Math.max(gate.since, (gate.startAt ?? Number.NEGATIVE_INFINITY) - 1);
    const firstTick = boundAfter(timeline, from);
    const upTo = Math.min(until, now, gate.endAt ?? Number.POSITIVE_INFINITY);
    if (firstTick > upTo) return;
    const range = { start: boundBefore(timeline, firstTick), end: boundAtOrBefore(timeline, upTo) };
    const last = ranges.at(-1);
    if (last !== undefined && last.end === range.start) {
      ranges[ranges.length - 1] = { start: last.start, end: range.end };
    } else {
      ranges.push(range);
    }
  });
  return ranges;
}
