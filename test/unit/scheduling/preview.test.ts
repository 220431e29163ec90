import { describe, expect, test } from 'vitest';
import { previewIntervals } from '../../../src/service/scheduling/preview.ts';
import { at, daily, scheduleFrom, utc } from './examples.ts';

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
