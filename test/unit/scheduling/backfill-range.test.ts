import { describe, expect, test } from 'vitest';
import type { Cadence } from '../../../src/foundation/domain/cadence.ts';
import type { CadenceHistory } from '../../../src/foundation/domain/schedule.ts';
import {
  countIntervals,
  intervalsIn,
  widenRange,
} from '../../../src/service/scheduling/backfill-range.ts';

import { at, daily, showIntervals, utc, on } from './examples.ts';

function always(cadence: Cadence): CadenceHistory {
  return [{ since: null, cadence }];
}

/** Hourly, daily from 10:00 on 1 May 2024, hourly again from 4 May. */
const changed: CadenceHistory = [
  { since: null, cadence: utc('hour') },
  { since: at('2024-05-01T10:00Z'), cadence: daily('UTC') },
  { since: at('2024-05-04T00:00Z'), cadence: utc('hour') },
];

function range(start: string, end: string): { start: number; end: number } {
  return { start: at(start), end: at(end) };
}

function widened(cadences: CadenceHistory, start: string, end: string, now: string): string[] {
  const found = widenRange(on(cadences), range(start, end), at(now));
  return found === null ? [] : showIntervals([found]);
}

describe('widenRange', () => {
  test('never passes the last complete interval', () => {
    expect(
      widened(always(utc('hour')), '2024-03-09T12:10Z', '2024-03-09T15:20Z', '2024-03-09T15:30Z'),
    ).toEqual(['2024-03-09T12:00:00Z/2024-03-09T15:00:00Z']);
  });

  test('is null if no interval is complete', () => {
    expect(
      widened(always(utc('hour')), '2024-03-09T15:10Z', '2024-03-09T15:20Z', '2024-03-09T15:30Z'),
    ).toEqual([]);
  });
});

test('intervalsIn does not make what is not asked for', () => {
  const years = range('1970-01-01T00:00Z', '2100-01-01T00:00Z');
  const [first] = intervalsIn(on(always(utc('every 1 minutes'))), years, 'newest_first');
  expect(showIntervals(first === undefined ? [] : [first])).toEqual([
    '2099-12-31T23:59:00Z/2100-01-01T00:00:00Z',
  ]);
});

describe('countIntervals', () => {
  test('counts the minutes of eight thousand years by arithmetic: no loop would end', () => {
    const years = range('2000-01-01T00:00Z', '9999-01-01T00:00Z');
    const days = (years.end - years.start) / 86_400_000;
    expect(countIntervals(on(always(utc('every 1 minutes'))), years)).toBe(days * 1440);
  });

  test('is 0 if no whole interval is in the range', () => {
    expect(countIntervals(on(changed), range('2024-05-02T01:00Z', '2024-05-02T02:00Z'))).toBe(0);
    expect(countIntervals(on(changed), range('2024-05-02T00:00Z', '2024-05-02T00:00Z'))).toBe(0);
  });
});
