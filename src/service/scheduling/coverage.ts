/** Facts about some intervals of a stretch of time, joined to one state for each. */

import type { CoverageRange, CoverageState } from '../../foundation/domain/coverage.ts';
import type { DataInterval, Instant } from '../../foundation/domain/time.ts';

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

/** The state of each instant of `range`, in order and without gaps. Facts of one state do not overlap. */
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
