import { expect, test } from 'vitest';
import type { Cadence } from '../../../src/foundation/domain/cadence.ts';
import type { CadenceHistory } from '../../../src/foundation/domain/schedule.ts';
import { countIntervals, intervalsIn } from '../../../src/service/scheduling/backfill-range.ts';
import { at, on, showIntervals, utc } from './examples.ts';

const always = (cadence: Cadence): CadenceHistory => [{ since: null, cadence }];

function range(start: string, end: string): { start: number; end: number } {
  return { start: at(start), end: at(end) };
}

test('intervalsIn does not make what is not asked for', () => {
  const years = range('1970-01-01T00:00Z', '2100-01-01T00:00Z');
  const [first] = intervalsIn(on(always(utc('every 1 minutes'))), years, 'newest_first');
  expect(showIntervals(first === undefined ? [] : [first])).toEqual([
    '2099-12-31T23:59:00Z/2100-01-01T00:00:00Z',
  ]);
});

test('countIntervals counts the minutes of eight thousand years by arithmetic: no loop would end', () => {
  const years = range('2000-01-01T00:00Z', '9999-01-01T00:00Z');
  const days = (years.end - years.start) / 86_400_000;
  expect(countIntervals(on(always(utc('every 1 minutes'))), years)).toBe(days * 1440);
});
