import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { CadenceHistory } from '../../src/foundation/domain/schedule.ts';
import type { Instant } from '../../src/foundation/domain/time.ts';
import { nextBoundary } from '../../src/service/scheduling/boundary.ts';
import { dueBy, outcomeOf } from '../../src/service/scheduling/deadline.ts';
import { zones } from './zones.ts';

const minuteMs = 60_000;
const quarterMs = 15 * minuteMs;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

const times = ['00:00', '00:30', '01:30', '02:00', '02:30', '03:00', '09:00', '23:45'];

function wallOf(timezone: string): (instant: Instant) => number {
  const format = new Intl.DateTimeFormat('sv-SE', {
    ...{ timeZone: timezone, year: 'numeric', month: '2-digit', day: '2-digit' },
    ...{ hour: '2-digit', minute: '2-digit', second: '2-digit' },
  });
  return (instant) => Date.parse(`${format.format(instant).replace(' ', 'T')}Z`);
}

/** Days with a change of the clock, in the years in which all zones have rules that they still have. */
function changesOf(wall: (instant: Instant) => number): Instant[] {
  const changes: Instant[] = [];
  for (let day = Date.UTC(2023, 0, 1); day < Date.UTC(2026, 0, 1); day += dayMs) {
    if (wall(day) - day !== wall(day + dayMs) - (day + dayMs)) changes.push(day);
  }
  return changes;
}

/** By reading the wall clock: the first quarter of an hour after `end` at which it reaches a new `HH:MM`. */
function readDue(wall: (instant: Instant) => number, end: Instant, timeOfDay: number): Instant {
  // What the clock has shown before a fold does not come again.
  let highest = Number.NEGATIVE_INFINITY;
  for (let at = end - 4 * hourMs; at <= end; at += quarterMs) highest = Math.max(highest, wall(at));
  for (let at = end + quarterMs; ; at += quarterMs) {
    const shown = wall(at);
    const label = Math.floor((highest - timeOfDay) / dayMs + 1) * dayMs + timeOfDay;
    if (shown >= label) return at;
    highest = Math.max(highest, shown);
  }
}

const historyOf = (timezone: string, offsetHour: number): CadenceHistory => [
  { since: null, cadence: { interval: 'day', timezone, offsetDay: null, offsetHour } },
];

test('P20 a local deadline is the first time after the end at which the wall clock shows it, across each change of clock', () => {
  let checked = 0;
  for (const timezone of zones) {
    const wall = wallOf(timezone);
    for (const change of changesOf(wall)) {
      for (const offsetHour of [0, 2, 9]) {
        const history = historyOf(timezone, offsetHour);
        const { cadence } = history[0];
        let start = nextBoundary(cadence, change - 2 * dayMs);
        for (let day = 0; day < 4; day += 1) {
          const end = nextBoundary(cadence, start);
          for (const at of times) {
            const [hours = 0, minutes = 0] = at.split(':').map(Number);
            const due = dueBy({ start, end }, history, { minutes: null, at });
            const read = readDue(wall, end, hours * hourMs + minutes * minuteMs);
            expect(due, `${timezone} ${new Date(end).toISOString()} ${at}`).toBe(read);
            checked += 1;
          }
          start = end;
        }
      }
    }
  }
  expect(checked).toBeGreaterThan(1_000);
});

test('P21 a deadline is after the end of its interval, and no later interval is due before an earlier one', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...zones),
      fc.integer({ min: Date.UTC(1990, 0, 1) / hourMs, max: Date.UTC(2037, 0, 1) / hourMs }),
      fc.integer({ min: 0, max: 23 }),
      fc.oneof(
        fc.integer({ min: 1, max: 43_200 }).map((minutes) => ({ minutes, at: null })),
        fc.constantFrom(...times).map((at) => ({ minutes: null, at })),
      ),
      (timezone, hour, offsetHour, deadline) => {
        const history = historyOf(timezone, offsetHour);
        const { cadence } = history[0];
        const start = nextBoundary(cadence, hour * hourMs);
        const end = nextBoundary(cadence, start);
        const first = dueBy({ start, end }, history, deadline);
        const second = dueBy({ start: end, end: nextBoundary(cadence, end) }, history, deadline);
        expect(first).toBeGreaterThan(end);
        expect(second).toBeGreaterThanOrEqual(first);
      },
    ),
  );
});

test('P22 met and missed are final, and what is open becomes one of them at its deadline', () => {
  const time = fc.integer({ min: 0, max: 1_000 });
  fc.assert(
    fc.property(
      fc.record({ due: time, now: time, later: time, warnMs: time }),
      fc.option(time),
      ({ due, now, later, warnMs }, deliveredAt) => {
        const at = (when: number) =>
          outcomeOf(
            due,
            deliveredAt !== null && deliveredAt <= when ? deliveredAt : null,
            when,
            warnMs,
          );
        const first = at(now);
        const second = at(Math.max(now, later));
        if (first === 'met' || first === 'missed') expect(second).toBe(first);
        if (Math.max(now, later) > due) expect(['met', 'missed']).toContain(second);
        if (first === 'at_risk') expect(second).not.toBe('pending');
      },
    ),
  );
});
