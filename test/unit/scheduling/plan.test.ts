import { describe, expect, test } from 'vitest';
import type { Schedule } from '../../../src/foundation/domain/schedule.ts';
import type { Instant } from '../../../src/foundation/domain/time.ts';
import {
  newestDue,
  nextRunAt,
  planTicks,
  supersedeEarlier,
} from '../../../src/service/scheduling/plan.ts';
import { changeWindow, pause, unpause } from '../../../src/service/scheduling/schedule.ts';
import { at, daily, scheduleFrom, show } from './examples.ts';

/** The ticks due at `now` as `start/end fate`. */
function due(schedule: Schedule, now: string, limit = 1000): string[] {
  return planTicks(schedule, at(now), limit).ticks.map(
    ({ interval, fate }) => `${clock(interval.start)}/${clock(interval.end)} ${fate}`,
  );
}

function clock(instant: Instant): string {
  return show(instant).slice(11, 16);
}

function shown(instant: Instant | null): string | null {
  return instant === null ? null : show(instant);
}

describe('the first tick', () => {
  test('is the next boundary, and its run covers its whole interval', () => {
    const schedule = scheduleFrom('2024-05-01T10:59:59Z');
    expect(due(schedule, '2024-05-01T10:59:59.999Z')).toEqual([]);
    expect(due(schedule, '2024-05-01T11:00Z')).toEqual(['10:00/11:00 ran']);
  });

  test('is the boundary after this one for an export created on a boundary', () => {
    const schedule = scheduleFrom('2024-05-01T10:00Z');
    expect(due(schedule, '2024-05-01T10:30Z')).toEqual([]);
    expect(due(schedule, '2024-05-01T11:00Z')).toEqual(['10:00/11:00 ran']);
  });
});

describe('the window', () => {
  test('changed to begin in the past fires nothing for the past', () => {
    const created = scheduleFrom('2024-05-01T08:30Z', { startAt: at('2024-06-01T00:00Z') });
    const planned = planTicks(created, at('2024-05-01T10:00Z'), 10).schedule;
    const opened = changeWindow(
      planned,
      { startAt: at('2024-01-01T00:00Z') },
      at('2024-05-01T10:30Z'),
    );
    expect(due(opened, '2024-05-01T11:00Z')).toEqual(['10:00/11:00 ran']);
  });

  test('changed while nothing planned leaves overdue ticks as they were', () => {
    const created = scheduleFrom('2024-05-01T08:30Z');
    const closed = changeWindow(
      created,
      { endAt: at('2024-05-01T08:45Z') },
      at('2024-05-01T10:30Z'),
    );
    expect(due(closed, '2024-05-01T12:00Z')).toEqual([
      '08:00/09:00 ran',
      '09:00/10:00 ran',
      '10:00/11:00 outside_window',
      '11:00/12:00 outside_window',
    ]);
  });
});

describe('pausing', () => {
  test('exactly on a tick leaves that tick to run', () => {
    const paused = pause(scheduleFrom('2024-05-01T08:30Z'), at('2024-05-01T09:00Z'));
    expect(due(paused, '2024-05-01T10:00Z')).toEqual(['08:00/09:00 ran', '09:00/10:00 paused']);
  });

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
