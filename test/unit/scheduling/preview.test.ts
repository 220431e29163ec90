import { describe, expect, test } from 'vitest';
import { planTicks } from '../../../src/service/scheduling/plan.ts';
import { previewIntervals } from '../../../src/service/scheduling/preview.ts';
import { changeCadence } from '../../../src/service/scheduling/schedule.ts';
import { at, daily, scheduleFrom, showIntervals, utc } from './examples.ts';

describe('previewIntervals', () => {
  test('shows local bounds and the true length over a change of clock', () => {
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

  test('starts at the interval open now, though older ticks are not planned yet', () => {
    const schedule = scheduleFrom('2024-05-01T08:30Z');
    const previewed = previewIntervals(schedule, at('2024-05-01T12:30Z'), 2);
    expect(showIntervals(previewed.map(({ interval }) => interval))).toEqual([
      '2024-05-01T12:00:00Z/2024-05-01T13:00:00Z',
      '2024-05-01T13:00:00Z/2024-05-01T14:00:00Z',
    ]);
  });

  test('continues from the decided ticks if the clock went back', () => {
    const created = scheduleFrom('2024-05-01T08:30Z');
    const { schedule } = planTicks(created, at('2024-05-01T11:00Z'), 100);
    const previewed = previewIntervals(schedule, at('2024-05-01T09:30Z'), 1);
    expect(showIntervals(previewed.map(({ interval }) => interval))).toEqual([
      '2024-05-01T11:00:00Z/2024-05-01T12:00:00Z',
    ]);
  });

  test('shows a change of cadence, each interval in its own zone', () => {
    const schedule = changeCadence(
      scheduleFrom('2024-05-01T08:30Z'),
      daily('Asia/Kathmandu'),
      at('2024-05-01T08:40Z'),
    );
    const previewed = previewIntervals(schedule, at('2024-05-01T08:40Z'), 2);
    expect(previewed.map(({ timezone, hours }) => `${timezone} ${hours}`)).toEqual([
      'UTC 1',
      'Asia/Kathmandu 9.25',
    ]);
    expect(previewed.map(({ localEnd }) => localEnd)).toEqual([
      '2024-05-01T09:00:00Z',
      '2024-05-02T00:00:00+05:45',
    ]);
  });

  test('says what becomes of each interval', () => {
    const schedule = scheduleFrom('2024-05-01T08:30Z', {
      cadence: utc('hour'),
      startAt: at('2024-05-01T10:00Z'),
      endAt: at('2024-05-01T10:00Z'),
    });
    expect(previewIntervals(schedule, at('2024-05-01T08:30Z'), 3).map(({ fate }) => fate)).toEqual([
      'outside_window',
      'ran',
      'outside_window',
    ]);
  });
});
