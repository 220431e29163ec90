import type { Schedule } from '../../src/foundation/domain/schedule.ts';
/**
 * The properties of `src/service/scheduling/README.md`, by number: boundaries, plans, marks. A failure prints fast-check's seed and
 * path: give both to `fc.assert` to see it again.
 */

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Instant } from '../../src/foundation/domain/time.ts';
import { intervalsIn } from '../../src/service/scheduling/backfill-range.ts';
import {
  boundaryAtOrBefore,
  countBoundaries,
  nextBoundary,
  nominalMs,
} from '../../src/service/scheduling/boundary.ts';
import { jitterMs } from '../../src/service/scheduling/jitter.ts';
import { missedWhilePaused } from '../../src/service/scheduling/schedule.ts';
import { planTicks, type Tick } from '../../src/service/scheduling/plan.ts';
import { previewIntervals } from '../../src/service/scheduling/preview.ts';
import { timelineOf } from '../../src/service/scheduling/timeline.ts';
import { on } from '../unit/scheduling/examples.ts';

import {
  anyCadence,
  anyInstant,
  anyLife,
  type DatedSettings,
  type Lived,
  play,
} from './scheduling-arbitraries.ts';

const runs = { numRuns: 300 };
const everything = Number.MAX_SAFE_INTEGER;

/** The log's entry for a tick or for the start of an interval: the last one strictly before. */
function settingsBefore(
  log: readonly DatedSettings[],
  instant: Instant,
): DatedSettings['settings'] {
  const entry = log.findLast(({ since }) => since < instant) ?? log[0];
  if (entry === undefined) throw new Error('an export without settings');
  return entry.settings;
}

/** The whole contract in ten lines: what was asked last decides; slow, and never late. */
function planNaively({ log, endedAt }: Lived, createdAt: Instant): Tick[] {
  const ticks: Tick[] = [];
  let start = boundaryAtOrBefore(settingsBefore(log, createdAt).cadence, createdAt);
  for (;;) {
    const end = nextBoundary(settingsBefore(log, start).cadence, start);
    if (end > endedAt) return ticks;
    const { startAt, endAt, paused } = settingsBefore(log, end);
    const inside = (startAt === null || startAt <= end) && (endAt === null || end <= endAt);
    const fate = inside ? (paused ? 'paused' : 'ran') : 'outside_window';
    ticks.push({ tickAt: end, interval: { start, end }, fate });
    start = end;
  }
}

function planAll(schedule: Schedule, now: Instant): readonly Tick[] {
  return planTicks(schedule, now, everything).ticks;
}

describe('boundaries', () => {
  test('P1 intervals tile: every instant is in exactly one, and neighbours share their bound', () => {
    fc.assert(
      fc.property(anyCadence, anyInstant, (cadence, instant) => {
        const start = boundaryAtOrBefore(cadence, instant);
        const end = nextBoundary(cadence, instant);
        expect(start).toBeLessThanOrEqual(instant);
        expect(end).toBeGreaterThan(instant);
        expect(nextBoundary(cadence, start)).toBe(end);
        expect(nextBoundary(cadence, end - 1)).toBe(end);
        expect(boundaryAtOrBefore(cadence, end)).toBe(end);
        expect(boundaryAtOrBefore(cadence, end - 1)).toBe(start);
        expect(boundaryAtOrBefore(cadence, end - 1)).toBe(start);
        expect(countBoundaries(cadence, start, end)).toBe(1);
        expect(start % 1000).toBe(0);
      }),
      { numRuns: 2000 },
    );
  });

  test('P1 an interval is as long as its name says, but for a change of clock', () => {
    fc.assert(
      fc.property(anyCadence, anyInstant, (cadence, instant) => {
        const length = nextBoundary(cadence, instant) - boundaryAtOrBefore(cadence, instant);
        const local = cadence.interval === 'day' || cadence.interval === 'week';
        // A bound in the day that Apia left out makes a short interval; Casey moves by three hours.
        const slack = local ? (cadence.timezone === 'Pacific/Apia' ? 24 : 3) * 3_600_000 : 0;
        expect(Math.abs(length - nominalMs(cadence.interval))).toBeLessThanOrEqual(slack);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('planning', () => {
  test('P3 each tick is what was asked before it came due, through any life of an export', () => {
    fc.assert(
      fc.property(anyLife, (life) => {
        const lived = play(life);
        const ticks = planAll(lived.schedule, lived.endedAt);
        expect(ticks).toEqual(planNaively(lived, life.createdAt));
        for (const [index, tick] of ticks.entries()) {
          expect(tick.interval.start).toBeLessThan(tick.interval.end);
          if (index > 0) expect(tick.interval.start).toBe(ticks[index - 1]?.interval.end);
        }
      }),
      runs,
    );
  });

  test('P4 how late and in what pages a tick is decided changes nothing', () => {
    fc.assert(
      fc.property(anyLife, fc.integer({ min: 1, max: 7 }), (life, limit) => {
        const prompt: Tick[] = [];
        play(life, (schedule, now) => {
          let current = schedule;
          for (;;) {
            const plan = planTicks(current, now, limit);
            prompt.push(...plan.ticks);
            current = plan.schedule;
            if (!plan.more) return current;
          }
        });
        const { schedule, endedAt } = play(life);
        expect(prompt).toEqual(planAll(schedule, endedAt));
      }),
      runs,
    );
  });

  test('P4 planning to one instant and then to another is planning to the later one', () => {
    fc.assert(
      fc.property(anyLife, fc.double({ min: 0, max: 1, noNaN: true }), (life, share) => {
        const { schedule, endedAt } = play(life);
        const middle = Math.floor(life.createdAt + (endedAt - life.createdAt) * share);
        const first = planTicks(schedule, middle, everything);
        const second = planTicks(first.schedule, endedAt, everything);
        const whole = planTicks(schedule, endedAt, everything);
        expect([...first.ticks, ...second.ticks]).toEqual(whole.ticks);
        expect(second.schedule).toEqual(whole.schedule);
      }),
      runs,
    );
  });

  test('P5 plan after plan is empty', () => {
    fc.assert(
      fc.property(anyLife, (life) => {
        const { schedule, endedAt } = play(life);
        const plan = planTicks(schedule, endedAt, everything);
        const again = planTicks(plan.schedule, endedAt, everything);
        expect(plan.more).toBe(false);
        expect(again.ticks).toEqual([]);
        expect(again.schedule).toEqual(plan.schedule);
      }),
      runs,
    );
  });

  test('P6 nothing runs before start_at or after end_at', () => {
    fc.assert(
      fc.property(anyLife, (life) => {
        const { schedule, endedAt } = play({ ...life, events: [] });
        const { startAt, endAt } = life.settings;
        for (const { tickAt, fate } of planAll(schedule, endedAt)) {
          if (fate === 'outside_window') continue;
          expect(tickAt).toBeGreaterThanOrEqual(startAt ?? tickAt);
          expect(tickAt).toBeLessThanOrEqual(endAt ?? tickAt);
        }
      }),
      runs,
    );
  });

  test('P7 a paused export runs nothing and still records every tick', () => {
    fc.assert(
      fc.property(anyLife, (life) => {
        const paused = play({
          ...life,
          settings: { ...life.settings, paused: true },
          events: life.events.filter(({ change }) => change.kind !== 'unpause'),
        });
        const ticks = planAll(paused.schedule, paused.endedAt);
        expect(ticks.filter(({ fate }) => fate === 'ran')).toEqual([]);
        expect(ticks).toHaveLength(planNaively(paused, life.createdAt).length);
      }),
      runs,
    );
  });

  test('P8 a clock that goes back and forth plans no tick twice and skips none', () => {
    const steps = fc.array(fc.integer({ min: -72, max: 96 }), { maxLength: 20 });
    fc.assert(
      fc.property(anyLife, steps, (life, hours) => {
        const lived = play(life);
        let { schedule } = lived;
        let now = lived.endedAt;
        let latest = lived.endedAt;
        const ticks = [...planAll(schedule, now)];
        schedule = planTicks(schedule, now, everything).schedule;
        for (const step of hours) {
          now += step * 3_600_000;
          latest = Math.max(latest, now);
          const plan = planTicks(schedule, now, everything);
          ticks.push(...plan.ticks);
          schedule = plan.schedule;
        }
        expect(ticks).toEqual(planAll(lived.schedule, latest));
      }),
      runs,
    );
  });

  test('P8 a change dated by a clock that went back leaves no gap and no overlap', () => {
    fc.assert(
      fc.property(anyLife, anyLife, fc.integer({ min: 0, max: 96 }), (life, later, hours) => {
        const ticks: Tick[] = [];
        const keepUp = (schedule: Schedule, now: Instant): Schedule => {
          const plan = planTicks(schedule, now, everything);
          ticks.push(...plan.ticks);
          return plan.schedule;
        };
        const planned = play(life, keepUp);
        const back = planned.endedAt - hours * 3_600_000;
        const changed = play({ ...later, createdAt: back }, keepUp, planned.schedule);
        keepUp(changed.schedule, Math.max(changed.endedAt, planned.endedAt));
        for (const [index, tick] of ticks.entries()) {
          if (index > 0) expect(tick.interval.start).toBe(ticks[index - 1]?.interval.end);
        }
        const range = { start: ticks[0]?.interval.start ?? 0, end: ticks.at(-1)?.tickAt ?? 0 };
        expect([...intervalsIn(on(changed.schedule.cadences), range, 'oldest_first')]).toEqual(
          ticks.map(({ interval }) => interval),
        );
      }),
      runs,
    );
  });

  test('P9 what was missed while paused is exactly the ticks recorded as paused', () => {
    fc.assert(
      fc.property(anyLife, fc.boolean(), (life, prompt) => {
        const lived = play(life, (schedule, now) =>
          prompt ? planTicks(schedule, now, everything).schedule : schedule,
        );
        const { log, endedAt, schedule } = lived;
        const runningUntil = log.findLastIndex(({ settings }) => !settings.paused);
        const pausedAt = log[runningUntil + 1]?.since ?? endedAt;
        const expected = planNaively(lived, life.createdAt)
          .filter(({ tickAt, fate }) => fate === 'paused' && tickAt > pausedAt)
          .map(({ interval }) => interval);
        const missed = missedWhilePaused(schedule, timelineOf(schedule, []), endedAt);
        expect(
          missed.flatMap((range) => [...intervalsIn(on(schedule.cadences), range, 'oldest_first')]),
        ).toEqual(expected);
        for (const [index, range] of missed.entries()) {
          if (index > 0) expect(range.start).toBeGreaterThan(missed[index - 1]?.end ?? Infinity);
        }
      }),
      runs,
    );
  });

  test('P10 a preview is what the planner will do', () => {
    fc.assert(
      fc.property(anyLife, (life) => {
        const { schedule, endedAt } = play(life);
        const previewed = previewIntervals(schedule, endedAt, 10);
        const until = previewed.at(-1)?.interval.end ?? 0;
        expect(previewed.map(({ interval, fate }) => ({ interval, fate }))).toEqual(
          planAll(schedule, until)
            .filter(({ tickAt }) => tickAt > endedAt)
            .map(({ interval, fate }) => ({ interval, fate })),
        );
      }),
      runs,
    );
  });
});

test('P15 jitter stays below 5% of the interval and below its limit', () => {
  fc.assert(
    fc.property(fc.uuid(), anyCadence, fc.nat({ max: 600 }), (id, cadence, maxSeconds) => {
      const delay = jitterMs(id, cadence, maxSeconds);
      const ceilingMs = Math.min(nominalMs(cadence.interval) / 20, maxSeconds * 1000);
      expect(Number.isInteger(delay) && delay >= 0 && delay <= ceilingMs).toBe(true);
      expect(jitterMs(id, cadence, maxSeconds)).toBe(delay);
    }),
    runs,
  );
});
