/** The properties of backfill ranges, by their number in `src/service/scheduling/README.md`. */

import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { DataInterval } from '../../src/foundation/domain/time.ts';
import {
  countIntervals,
  intervalsIn,
  pageOfIntervals,
  widenRange,
} from '../../src/service/scheduling/backfill-range.ts';
import { planTicks } from '../../src/service/scheduling/plan.ts';
import { timelineOf, withRange } from '../../src/service/scheduling/timeline.ts';
import { on } from '../unit/scheduling/examples.ts';
import { anyLife, play } from './scheduling-arbitraries.ts';

const runs = { numRuns: 300 };

/** A range of ticks around a life's end, and the history to cut it by. */
const anyPast = fc
  .record({
    life: anyLife,
    startsBeforeMs: fc.integer({ min: 0, max: 20 * 24 * 3600 }).map((seconds) => seconds * 1000),
    lengthMs: fc.integer({ min: 1, max: 10 * 24 * 3600 }).map((seconds) => seconds * 1000),
    // Some intervals were decided by other zone data.
    first: fc.nat(5),
    count: fc.nat(6),
    movedMs: fc.integer({ min: -180, max: 180 }).map((minutes) => minutes * 60_000),
  })
  .map(({ life, startsBeforeMs, lengthMs, first, count, movedMs }) => {
    const { schedule, endedAt } = play(life);
    const start = endedAt - startsBeforeMs;
    const asked = { start, end: start + lengthMs };
    const page = { order: 'oldest_first', limit: first + count } as const;
    const facts = pageOfIntervals(on(schedule.cadences), asked, page)
      .slice(first)
      .map((one) => ({ start: one.start + movedMs, end: one.end + movedMs }));
    return { timeline: timelineOf(schedule, facts), endedAt, asked };
  });

test('P11 a widened range holds the range that was asked for, and no interval more', () => {
  fc.assert(
    fc.property(anyPast, ({ timeline, endedAt, asked }) => {
      const widened = widenRange(timeline, asked, endedAt);
      if (widened === null) {
        const complete = { start: asked.start, end: Math.min(asked.end, endedAt) };
        const whole = [...intervalsIn(timeline, complete, 'oldest_first')];
        expect(
          whole.filter(({ start, end }) => start >= complete.start && end <= complete.end),
        ).toEqual([]);
        return;
      }
      const intervals = [...intervalsIn(timeline, widened, 'oldest_first')];
      expect(widened.start).toBeLessThanOrEqual(asked.start);
      expect(intervals[0]?.start).toBe(widened.start);
      expect(intervals[0]?.end).toBeGreaterThan(asked.start);
      expect(intervals.at(-1)?.end).toBe(widened.end);
      expect(intervals.at(-1)?.start).toBeLessThan(asked.end);
      expect(widened.end).toBeLessThanOrEqual(endedAt);
      expect(widenRange(timeline, widened, endedAt)).toEqual(widened);
    }),
    runs,
  );
});

test('P12 splitting a range at a bound and planning the halves equals planning the whole', () => {
  fc.assert(
    fc.property(anyPast, fc.nat(), ({ timeline, endedAt, asked }, seed) => {
      const widened = widenRange(timeline, asked, endedAt);
      if (widened === null) return;
      const whole = [...intervalsIn(timeline, widened, 'oldest_first')];
      const cut = whole[seed % whole.length]?.end ?? widened.end;
      const halves: DataInterval[] = [
        { start: widened.start, end: cut },
        { start: cut, end: widened.end },
      ];
      expect(halves.flatMap((half) => [...intervalsIn(timeline, half, 'oldest_first')])).toEqual(
        whole,
      );
    }),
    runs,
  );
});

test('P13 the count, the pages and the other order all give the same intervals', () => {
  fc.assert(
    fc.property(anyPast, fc.integer({ min: 1, max: 9 }), ({ timeline, asked }, limit) => {
      const whole = [...intervalsIn(timeline, asked, 'oldest_first')];
      expect(countIntervals(timeline, asked)).toBe(whole.length);
      expect([...intervalsIn(timeline, asked, 'newest_first')]).toEqual(whole.toReversed());
      for (const order of ['oldest_first', 'newest_first'] as const) {
        const paged: DataInterval[] = [];
        for (;;) {
          const after = paged.at(-1)?.start;
          const page = pageOfIntervals(timeline, asked, { order, after, limit });
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
      expect([...intervalsIn(on(schedule.cadences), range, 'oldest_first')]).toEqual(
        ticks.map(({ interval }) => interval),
      );
    }),
    runs,
  );
});

test('P19 what was decided keeps its bounds, and the time between is cut to fit', () => {
  fc.assert(
    fc.property(anyPast, ({ timeline, asked }) => {
      const intervals = [...intervalsIn(timeline, asked, 'oldest_first')];
      for (const [index, { start, end }] of intervals.entries()) {
        expect(start).toBeLessThan(end);
        if (index > 0) expect(start).toBe(intervals[index - 1]?.end);
      }
      for (const fact of timeline.decided) {
        if (asked.start <= fact.start && fact.end <= asked.end) {
          expect(intervals).toContainEqual(fact);
        }
      }
    }),
    runs,
  );
});

test('P19 a backfill covers exactly its range, also if the zone data changes while it runs', () => {
  fc.assert(
    fc.property(anyPast, ({ timeline, asked }) => {
      const intervals = [...intervalsIn(withRange(timeline, asked), asked, 'oldest_first')];
      expect(intervals[0]?.start).toBe(asked.start);
      expect(intervals.at(-1)?.end).toBe(asked.end);
      expect(countIntervals(withRange(timeline, asked), asked)).toBe(intervals.length);
    }),
    runs,
  );
});
