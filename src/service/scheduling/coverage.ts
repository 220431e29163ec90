/** Facts about some intervals of a stretch of time, joined to one state for each. */

import type { CoverageRange, CoverageState } from '../../foundation/domain/coverage.ts';
import type { DataInterval, Instant } from '../../foundation/domain/time.ts';
import { countBounds, type Timeline } from './timeline.ts';

/** If there are two facts about one interval, the one that comes first here is its state. */
const precedence: readonly CoverageState[] = [
  'retrying',
  'running',
  'healing',
  'failed',
  'cancelled',
  'missing',
  'late_rows',
  'accepted',
  'superseded',
  'unsettled',
  'done',
  'paused',
];

interface Edge {
  readonly at: Instant;
  readonly layer: number;
  readonly step: 1 | -1;
}

/**
 * One state for each instant of `range`; what no fact is about was never asked for. The result is in order,
 * covers `range` without gaps, and neighbours differ.
 *
 * @param facts in any order; those of one state do not overlap
 */
export function joinCoverage(
  range: DataInterval,
  facts: readonly CoverageRange[],
): readonly CoverageRange[] {
  const edges: Edge[] = [];
  for (const { start, end, state } of facts) {
    const layer = precedence.indexOf(state);
    const from = Math.max(start, range.start);
    const to = Math.min(end, range.end);
    if (from >= to || layer < 0) continue;
    edges.push({ at: from, layer, step: 1 }, { at: to, layer, step: -1 });
  }
  edges.sort((a, b) => a.at - b.at);
  const open = precedence.map(() => 0);
  const joined: CoverageRange[] = [];
  let from = range.start;
  const closeAt = (at: Instant) => {
    if (at <= from) return;
    const state = precedence[open.findIndex((count) => count > 0)] ?? 'never_asked';
    const last = joined.at(-1);
    if (last?.state === state) joined[joined.length - 1] = { ...last, end: at };
    else joined.push({ start: from, end: at, state });
    from = at;
  };
  for (const { at, layer, step } of edges) {
    closeAt(at);
    open[layer] = (open[layer] ?? 0) + step;
  }
  closeAt(range.end);
  return joined;
}

/** The part of one state of a day's intervals. */
export interface CoverageDay {
  /** Its midnight, UTC. */
  readonly day: Instant;
  /** The number of intervals that start on this day, by state; states without any are absent. */
  readonly counts: ReadonlyMap<CoverageState, number>;
}

const dayMs = 86_400_000;

/** Counts them per UTC day, oldest first. An interval belongs to the day that it starts on; days without any are absent. */
export function countPerDay(
  timeline: Timeline,
  ranges: readonly CoverageRange[],
): readonly CoverageDay[] {
  const days: { readonly day: Instant; readonly counts: Map<CoverageState, number> }[] = [];
  for (const { start, end, state } of ranges) {
    for (let from = start; from < end; ) {
      const day = Math.floor(from / dayMs) * dayMs;
      const to = Math.min(end, day + dayMs);
      const count = countBounds(timeline, from - 1, to - 1);
      if (count > 0) {
        if (days.at(-1)?.day !== day) days.push({ day, counts: new Map() });
        const counts = days.at(-1)?.counts;
        counts?.set(state, (counts.get(state) ?? 0) + count);
      }
      from = to;
    }
  }
  return days;
}
