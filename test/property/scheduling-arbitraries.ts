import type { Schedule } from '../../src/foundation/domain/schedule.ts';
/** What the scheduling properties draw from: zones, cadences, instants and the lives of exports. */

import fc from 'fast-check';
import { type Cadence, type Interval, intervals } from '../../src/foundation/domain/cadence.ts';
import type { Instant } from '../../src/foundation/domain/time.ts';
import {
  changeCadence,
  changeWindow,
  openSchedule,
  pause,
  type Settings,
  unpause,
} from '../../src/service/scheduling/schedule.ts';
import { firstYear, lastYear, zones } from './zones.ts';

const hourMs = 3_600_000;

/** Whole seconds, as Postgres' clock floored; far enough from the ends for a week to fit. */
export const anyInstant: fc.Arbitrary<Instant> = fc
  .integer({ min: Date.UTC(firstYear, 0, 9) / 1000, max: Date.UTC(lastYear, 11, 1) / 1000 })
  .map((seconds) => seconds * 1000);

export function cadenceOf(names: readonly Interval[]): fc.Arbitrary<Cadence> {
  return fc
    .record({
      interval: fc.constantFrom(...names),
      timezone: fc.constantFrom(...zones),
      day: fc.integer({ min: 0, max: 6 }),
      hour: fc.integer({ min: 0, max: 23 }),
    })
    .map(({ interval, timezone, day, hour }) => ({
      interval,
      timezone,
      offsetDay: interval === 'week' ? day : null,
      offsetHour: interval === 'week' || interval === 'day' ? hour : null,
    }));
}

export const anyCadence = cadenceOf(intervals);

/** Without the shortest intervals, so that weeks of life stay a few thousand ticks. */
const livelyCadence = cadenceOf(['day', 'day', 'week', 'hour', 'every 20 minutes']);

/** A change of settings, `afterMs` after the one before it. */
export interface LifeEvent {
  readonly afterMs: number;
  readonly change:
    | { readonly kind: 'pause' | 'unpause' }
    | { readonly kind: 'window'; readonly startMs: number | null; readonly endMs: number | null }
    | { readonly kind: 'cadence'; readonly cadence: Cadence };
}

/** The life of an export: how it was created, what was changed when, and how long it lasted. */
export interface Life {
  readonly createdAt: Instant;
  readonly settings: Settings;
  readonly events: readonly LifeEvent[];
  readonly lastMs: number;
}

/** Often a whole number of hours, so that changes fall exactly on ticks too. */
const wait = fc.oneof(
  fc.constantFrom(0, hourMs / 3, hourMs, 24 * hourMs),
  fc.integer({ min: 1, max: 5 * 3600 }).map((seconds) => seconds * 1000),
  fc.integer({ min: 1, max: 72 }).map((hours) => hours * hourMs),
);
/** From the change on; negative is in the past. */
const bound = fc.option(fc.integer({ min: -96, max: 96 }).map((hours) => hours * hourMs));

const event: fc.Arbitrary<LifeEvent> = fc.record({
  afterMs: wait,
  change: fc.oneof(
    fc.constant({ kind: 'pause' as const }),
    fc.constant({ kind: 'unpause' as const }),
    fc.record({ kind: fc.constant('window' as const), startMs: bound, endMs: bound }),
    fc.record({ kind: fc.constant('cadence' as const), cadence: livelyCadence }),
  ),
});

/** Half of the lives begin on a whole hour. */
export const anyLife: fc.Arbitrary<Life> = fc
  .record({
    instant: anyInstant,
    wholeHour: fc.boolean(),
    cadence: livelyCadence,
    paused: fc.boolean(),
    startMs: bound,
    endMs: bound,
    events: fc.array(event, { maxLength: 12 }),
    lastMs: wait,
  })
  .map(({ instant, wholeHour, cadence, paused, startMs, endMs, events, lastMs }) => {
    const createdAt = wholeHour ? Math.floor(instant / hourMs) * hourMs : instant;
    const window = windowFrom(createdAt, startMs, endMs);
    return { createdAt, settings: { cadence, paused, ...window }, events, lastMs };
  });

export function windowFrom(
  now: Instant,
  startMs: number | null,
  endMs: number | null,
): { startAt: Instant | null; endAt: Instant | null } {
  return {
    startAt: startMs === null ? null : now + startMs,
    endAt: endMs === null ? null : now + endMs,
  };
}

/** Settings and the instant from which on they hold: for ticks and intervals strictly after it. */
export interface DatedSettings {
  readonly since: Instant;
  readonly settings: Settings;
}

export interface Lived {
  readonly schedule: Schedule;
  /** Every settings the export ever had, oldest first: what a naive planner needs to know. */
  readonly log: readonly DatedSettings[];
  readonly endedAt: Instant;
}

/**
 * Plays a life.
 *
 * @param visit called with the schedule and the time before each change and at the end; what it
 *   returns goes on (a planner that keeps up, or nothing at all)
 * @param opened the schedule to begin with, if it is not a new one
 */
export function play(
  life: Life,
  visit: (schedule: Schedule, now: Instant) => Schedule = (schedule) => schedule,
  opened: Schedule = openSchedule(life.settings, life.createdAt),
): Lived {
  let now = life.createdAt;
  let settings = life.settings;
  let schedule = opened;
  const log: DatedSettings[] = [{ since: now, settings }];
  for (const { afterMs, change } of life.events) {
    now += afterMs;
    schedule = visit(schedule, now);
    switch (change.kind) {
      case 'pause':
        schedule = pause(schedule, now);
        settings = { ...settings, paused: true };
        break;
      case 'unpause':
        schedule = unpause(schedule, now);
        settings = { ...settings, paused: false };
        break;
      case 'window': {
        const window = windowFrom(now, change.startMs, change.endMs);
        schedule = changeWindow(schedule, window, now);
        settings = { ...settings, ...window };
        break;
      }
      case 'cadence':
        schedule = changeCadence(schedule, change.cadence, now);
        settings = { ...settings, cadence: change.cadence };
        break;
    }
    log.push({ since: now, settings });
  }
  now += life.lastMs;
  return { schedule: visit(schedule, now), log, endedAt: now };
}
