import { describe, expect, test } from 'vitest';
import type { Schedule } from '../../../src/foundation/domain/schedule.ts';
import { tickAfter } from '../../../src/service/scheduling/cadence-history.ts';
import { planTicks } from '../../../src/service/scheduling/plan.ts';
import { changeCadence } from '../../../src/service/scheduling/schedule.ts';
import { at, daily, scheduleFrom, show, showIntervals, utc, weekly } from './examples.ts';

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

  test('from long to short waits for the end of the long interval', () => {
    const weeklyExport = scheduleFrom('2024-05-01T08:30Z', { cadence: weekly('UTC', 0) });
    const changed = changeCadence(weeklyExport, utc('hour'), at('2024-05-02T00:00Z'));
    expect(intervalsDue(changed, '2024-05-05T02:30Z')).toEqual([
      '2024-04-28T00:00:00Z/2024-05-05T00:00:00Z',
      '2024-05-05T00:00:00Z/2024-05-05T01:00:00Z',
      '2024-05-05T01:00:00Z/2024-05-05T02:00:00Z',
    ]);
  });

  test('of zone closes the local day at its old end', () => {
    const newYork = scheduleFrom('2024-05-01T12:00Z', { cadence: daily('America/New_York') });
    const changed = changeCadence(newYork, daily('Asia/Kathmandu'), at('2024-05-01T13:00Z'));
    expect(intervalsDue(changed, '2024-05-03T18:15Z')).toEqual([
      '2024-05-01T04:00:00Z/2024-05-02T04:00:00Z',
      '2024-05-02T04:00:00Z/2024-05-02T18:15:00Z',
      '2024-05-02T18:15:00Z/2024-05-03T18:15:00Z',
    ]);
  });

  test('several times before the old boundary: the last one counts', () => {
    let schedule = scheduleFrom('2024-05-01T08:30Z', { cadence: daily('UTC') });
    schedule = changeCadence(schedule, utc('hour'), at('2024-05-01T09:00Z'));
    schedule = changeCadence(schedule, weekly('UTC', 3), at('2024-05-01T10:00Z'));
    schedule = changeCadence(schedule, utc('every 30 minutes'), at('2024-05-01T11:00Z'));
    expect(schedule.cadences).toHaveLength(2);
    expect(intervalsDue(schedule, '2024-05-02T00:30Z')).toEqual([
      '2024-05-01T00:00:00Z/2024-05-02T00:00:00Z',
      '2024-05-02T00:00:00Z/2024-05-02T00:30:00Z',
    ]);
  });

  test('and back before the old boundary leaves no trace', () => {
    const created = scheduleFrom('2024-05-01T08:30Z');
    const there = changeCadence(created, daily('UTC'), at('2024-05-01T08:40Z'));
    expect(changeCadence(there, utc('hour'), at('2024-05-01T08:50Z'))).toEqual(created);
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

  test('twice while ticks are overdue gives each cadence its own time', () => {
    let schedule = scheduleFrom('2024-05-01T08:30Z');
    schedule = changeCadence(schedule, utc('every 30 minutes'), at('2024-05-01T08:40Z'));
    schedule = changeCadence(schedule, daily('UTC'), at('2024-05-01T09:40Z'));
    expect(intervalsDue(schedule, '2024-05-02T00:00Z')).toEqual([
      '2024-05-01T08:00:00Z/2024-05-01T09:00:00Z',
      '2024-05-01T09:00:00Z/2024-05-01T09:30:00Z',
      '2024-05-01T09:30:00Z/2024-05-01T10:00:00Z',
      '2024-05-01T10:00:00Z/2024-05-02T00:00:00Z',
    ]);
  });

  test('exactly on a boundary lets the interval that opens there run to its old end', () => {
    const changed = changeCadence(
      scheduleFrom('2024-05-01T08:30Z'),
      utc('every 10 minutes'),
      at('2024-05-01T09:00Z'),
    );
    expect(intervalsDue(changed, '2024-05-01T10:10Z')).toEqual([
      '2024-05-01T08:00:00Z/2024-05-01T09:00:00Z',
      '2024-05-01T09:00:00Z/2024-05-01T10:00:00Z',
      '2024-05-01T10:00:00Z/2024-05-01T10:10:00Z',
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

  test('of the offset hour keeps days without gap or overlap', () => {
    const changed = changeCadence(
      scheduleFrom('2024-05-01T08:30Z', { cadence: daily('UTC', 6) }),
      daily('UTC', 5),
      at('2024-05-01T09:00Z'),
    );
    expect(intervalsDue(changed, '2024-05-03T05:00Z')).toEqual([
      '2024-05-01T06:00:00Z/2024-05-02T06:00:00Z',
      '2024-05-02T06:00:00Z/2024-05-03T05:00:00Z',
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
