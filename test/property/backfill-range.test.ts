/** The properties of backfill ranges, by their number in `src/scheduling/README.md`. */

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { DataInterval } from '../../src/domain/time.ts';
import {
  countIntervals,
  intervalsIn,
  pageOfIntervals,
  widenRange,
} from '../../src/scheduling/backfill-range.ts';
import { planTicks } from '../../src/scheduling/plan.ts';
import { anyLife, play } from './scheduling-arbitraries.ts';

const runs = { numRuns: 300 };

/** A range of ticks around a life's end, and the history to cut it by. */
const anyPast = fc
  .record({
    life: anyLife,
    startsBeforeMs: fc.integer({ min: 0, max: 20 * 24 * 3600 }).map((seconds) => seconds * 1000),
    lengthMs: fc.integer({ min: 1, max: 10 * 24 * 3600 }).map((seconds) => seconds * 1000),
  })
  .map(({ life, startsBeforeMs, lengthMs }) => {
    const { schedule, endedAt } = play(life);
    const start = endedAt - startsBeforeMs;
    return { cadences: schedule.cadences, endedAt, asked: { start, end: start + lengthMs } };
  });

describe('backfill ranges', () => {
  test('P11 a widened range holds the range that was asked for, and no interval more', () => {
    fc.assert(
      fc.property(anyPast, ({ cadences, endedAt, asked }) => {
        const widened = widenRange(cadences, asked, endedAt);
        if (widened === null) return;
        const intervals = [...intervalsIn(cadences, widened, 'oldest_first')];
        expect(widened.start).toBeLessThanOrEqual(asked.start);
        expect(intervals[0]?.start).toBe(widened.start);
        expect(intervals[0]?.end).toBeGreaterThan(asked.start);
        expect(intervals.at(-1)?.end).toBe(widened.end);
        expect(intervals.at(-1)?.start).toBeLessThan(asked.end);
        expect(widened.end).toBeLessThanOrEqual(endedAt);
        expect(widenRange(cadences, widened, endedAt)).toEqual(widened);
      }),
      runs,
    );
  });

  test('P12 splitting a range at a bound and planning the halves equals planning the whole', () => {
    fc.assert(
      fc.property(anyPast, fc.nat(), ({ cadences, endedAt, asked }, seed) => {
        const widened = widenRange(cadences, asked, endedAt);
        if (widened === null) return;
        const whole = [...intervalsIn(cadences, widened, 'oldest_first')];
        const cut = whole[seed % whole.length]?.end ?? widened.end;
        const halves: DataInterval[] = [
          { start: widened.start, end: cut },
          { start: cut, end: widened.end },
        ];
        expect(halves.flatMap((half) => [...intervalsIn(cadences, half, 'oldest_first')])).toEqual(
          whole,
        );
      }),
      runs,
    );
  });

  test('P13 the count, the pages and the other order all give the same intervals', () => {
    fc.assert(
      fc.property(anyPast, fc.integer({ min: 1, max: 9 }), ({ cadences, asked }, limit) => {
        const whole = [...intervalsIn(cadences, asked, 'oldest_first')];
        expect(countIntervals(cadences, asked)).toBe(whole.length);
        expect([...intervalsIn(cadences, asked, 'newest_first')]).toEqual(whole.toReversed());
        for (const order of ['oldest_first', 'newest_first'] as const) {
          const paged: DataInterval[] = [];
          for (;;) {
            const after = paged.at(-1)?.start;
            const page = pageOfIntervals(cadences, asked, { order, after, limit });
            paged.push(...page);
            if (page.length < limit) break;
          }
          expect(paged).toEqual(order === 'oldest_first' ? whole : whole.toReversed());
        }
      }),
      runs,
    );
  });

  test('P13 what ran by the schedule and what a backfill makes of the past are the same intervals', () => {
    fc.assert(
      fc.property(anyLife, (life) => {
        const { schedule, endedAt } = play(life);
        const ticks = planTicks(schedule, endedAt, Number.MAX_SAFE_INTEGER).ticks;
        const [first, last] = [ticks[0], ticks.at(-1)];
        if (first === undefined || last === undefined) return;
        const range = { start: first.interval.start, end: last.interval.end };
        expect([...intervalsIn(schedule.cadences, range, 'oldest_first')]).toEqual(
          ticks.map(({ interval }) => interval),
        );
      }),
      runs,
    );
  });
});
