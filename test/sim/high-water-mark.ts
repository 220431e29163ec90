import type { DataInterval, Instant } from '../../src/foundation/domain/time.ts';

/**
 * The end of the unbroken prefix of completed intervals. It never goes back; intervals beyond a gap
 * do not move it until the gap is closed.
 *
 * @param mark the mark so far; for a new export, the start of its first interval
 * @param completed completed intervals in any order; those before the mark may be left out
 */
export function advanceHighWaterMark(mark: Instant, completed: readonly DataInterval[]): Instant {
  let advanced = mark;
  for (const { start, end } of completed.toSorted((a, b) => a.start - b.start)) {
    if (start > advanced) break;
    advanced = Math.max(advanced, end);
  }
  return advanced;
}
