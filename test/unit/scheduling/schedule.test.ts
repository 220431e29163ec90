import { describe, expect, test } from 'vitest';
import type { Schedule } from '../../../src/foundation/domain/schedule.ts';
import { tickAfter } from '../../../src/service/scheduling/boundary.ts';
import { planTicks } from '../../../src/service/scheduling/plan.ts';
import { changeCadence } from '../../../src/service/scheduling/schedule.ts';
import { at, daily, scheduleFrom, show, showIntervals, utc } from './examples.ts';

function intervalsDue(schedule: Schedule, now: string): string[] {
  return showIntervals(planTicks(schedule, at(now), 1000).ticks.map((tick) => tick.interval));
}

describe('changing the cadence', () => {
  test('closes the open interval at the old boundary and goes on with the new one', () => {
    const changed = changeCadence(
      scheduleFrom('2024-05-01T08:30Z'),
      daily('UTC'),
      at('2024-05-01T08:45Z'),
    );
    expect(intervalsDue(changed, '2024-05-03T00:00Z')).toEqual([
      '2024-05-01T08:00:00Z/2024-05-01T09:00:00Z',
      '2024-05-01T09:00:00Z/2024-05-02T00:00:00Z',
      '2024-05-02T00:00:00Z/2024-05-03T00:00:00Z',
    ]);
  });

  test('while ticks are overdue leaves those to the old cadence', () => {
    const changed = changeCadence(
      scheduleFrom('2024-05-01T08:30Z'),
      daily('UTC'),
      at('2024-05-01T11:10Z'),
    );
    expect(intervalsDue(changed, '2024-05-02T00:00Z')).toEqual([
      '2024-05-01T08:00:00Z/2024-05-01T09:00:00Z',
      '2024-05-01T09:00:00Z/2024-05-01T10:00:00Z',
      '2024-05-01T10:00:00Z/2024-05-01T11:00:00Z',
      '2024-05-01T11:00:00Z/2024-05-01T12:00:00Z',
      '2024-05-01T12:00:00Z/2024-05-02T00:00:00Z',
    ]);
  });

  test('by a clock that went back does not reach decided ticks', () => {
    const planned = planTicks(scheduleFrom('2024-05-01T08:30Z'), at('2024-05-01T11:00Z'), 10);
    const changed = changeCadence(planned.schedule, daily('UTC'), at('2024-05-01T06:00Z'));
    expect(intervalsDue(changed, '2024-05-02T00:00Z')).toEqual([
      '2024-05-01T11:00:00Z/2024-05-01T12:00:00Z',
      '2024-05-01T12:00:00Z/2024-05-02T00:00:00Z',
    ]);
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
