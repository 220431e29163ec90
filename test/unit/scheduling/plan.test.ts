import { describe, expect, test } from 'vitest';
import type { Schedule } from '../../../src/foundation/domain/schedule.ts';
import type { Instant } from '../../../src/foundation/domain/time.ts';
import { tickAfter } from '../../../src/service/scheduling/boundary.ts';
import {
  newestDue,
  nextRunAt,
  planTicks,
  supersedeEarlier,
} from '../../../src/service/scheduling/plan.ts';
import { previewIntervals } from '../../../src/service/scheduling/preview.ts';
import { changeWindow, pause, unpause } from '../../../src/service/scheduling/schedule.ts';
import { at, daily, scheduleFrom, show, showIntervals, utc } from './examples.ts';

function intervalsDue(schedule: Schedule, now: string): string[] {
  return showIntervals(planTicks(schedule, at(now), 1000).ticks.map((tick) => tick.interval));
}

const shown = (instant: Instant | null): string | null => (instant === null ? null : show(instant));

describe('pausing', () => {
  test('for a thousand changes of the window keeps the state small', () => {
    let schedule = pause(scheduleFrom('2024-05-01T08:30Z'), at('2024-05-01T08:31Z'));
    for (let second = 0; second < 1000; second += 1) {
      const endAt = at('2030-01-01T00:00Z') + second * 1000;
      schedule = changeWindow(schedule, { endAt }, at('2024-05-01T08:32Z') + second * 1000);
    }
    expect(schedule.gates.length).toBeLessThanOrEqual(2);
  });
});

describe('catch-up', () => {
  test('a page of no ticks says that there is more', () => {
    const plan = planTicks(scheduleFrom('2024-01-01T00:30Z'), at('2024-01-01T01:00Z'), 0);
    expect(plan.ticks).toEqual([]);
    expect(plan.more).toBe(true);
  });

  test('stores as JSON and goes on from there', () => {
    const created = pause(
      scheduleFrom('2024-03-09T12:00Z', { cadence: daily('America/New_York', 2) }),
      at('2024-03-10T12:00Z'),
    );
    const stored: Schedule = JSON.parse(JSON.stringify(created));
    expect(planTicks(stored, at('2024-03-14T00:00Z'), 10)).toEqual(
      planTicks(created, at('2024-03-14T00:00Z'), 10),
    );
  });
});

describe('nextRunAt', () => {
  test('is the next tick', () => {
    expect(shown(nextRunAt(scheduleFrom('2024-05-01T08:30Z')))).toBe('2024-05-01T09:00:00Z');
  });

  test('is an overdue tick that will still run, though the export is paused by now', () => {
    const paused = pause(scheduleFrom('2024-05-01T08:30Z'), at('2024-05-01T09:30Z'));
    expect(shown(nextRunAt(paused))).toBe('2024-05-01T09:00:00Z');
  });

  test('passes over overdue ticks of a pause that is over', () => {
    const created = scheduleFrom('2024-05-01T08:30Z', { paused: true });
    expect(shown(nextRunAt(unpause(created, at('2024-05-01T10:30Z'))))).toBe(
      '2024-05-01T11:00:00Z',
    );
  });
});

describe('of an export that has no past', () => {
  const shownFates = (schedule: Schedule, now: string, limit = 1000) => {
    const { ticks } = planTicks(schedule, at(now), limit);
    return supersedeEarlier(ticks, newestDue(schedule, at(now))).map(({ fate }) => fate);
  };

  test('only the newest tick that is due runs, also if a page ends before it', () => {
    const schedule = scheduleFrom('2024-05-01T10:30Z');
    expect(shownFates(schedule, '2024-05-01T13:00Z')).toEqual(['superseded', 'superseded', 'ran']);
    expect(shownFates(schedule, '2024-05-01T13:00Z', 2)).toEqual(['superseded', 'superseded']);
    expect(newestDue(schedule, at('2024-05-01T10:59Z'))).toBeNull();
  });

  test('a newer tick that does not run takes the place of none', () => {
    const paused = pause(scheduleFrom('2024-05-01T10:30Z'), at('2024-05-01T12:30Z'));
    expect(shownFates(paused, '2024-05-01T14:00Z')).toEqual([
      'superseded',
      'ran',
      'paused',
      'paused',
    ]);
  });

  test('a year of ticks has one newest', () => {
    const schedule = scheduleFrom('2023-05-01T10:30Z');
    expect(shown(newestDue(schedule, at('2024-05-01T10:59Z')))).toBe(show(at('2024-05-01T10:00Z')));
  });
});

describe('a bound that new zone data moved', () => {
  test('is still where the next cadence begins', () => {
    // 09:17 is no boundary of `hour`: as if the zone data of the day had put it there.
    const seam = at('2024-05-01T09:17Z');
    const cadences = [
      { since: null, cadence: utc('hour') },
      { since: seam, cadence: daily('UTC') },
    ] as const;
    expect(show(tickAfter(cadences, at('2024-05-01T09:00Z')))).toBe('2024-05-01T09:17:00Z');
    expect(show(tickAfter(cadences, seam))).toBe('2024-05-02T00:00:00Z');
  });

  test('is the end of the interval that was open when the data changed', () => {
    const stored = {
      ...scheduleFrom('2024-05-01T08:30Z'),
      openIntervalStart: at('2024-05-01T07:17Z'),
    };
    expect(intervalsDue(stored, '2024-05-01T09:00Z')).toEqual([
      '2024-05-01T07:17:00Z/2024-05-01T09:00:00Z',
    ]);
  });
});

test('previewIntervals shows local bounds and the true length over a change of clock', () => {
  const schedule = scheduleFrom('2024-03-09T12:00Z', { cadence: daily('America/New_York') });
  expect(
    previewIntervals(schedule, at('2024-03-09T12:00Z'), 3).map(
      ({ localStart, localEnd, hours }) => `${localStart}/${localEnd} ${hours}`,
    ),
  ).toEqual([
    '2024-03-09T00:00:00-05:00/2024-03-10T00:00:00-05:00 24',
    '2024-03-10T00:00:00-05:00/2024-03-11T00:00:00-04:00 23',
    '2024-03-11T00:00:00-04:00/2024-03-12T00:00:00-04:00 24',
  ]);
});
