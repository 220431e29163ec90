import { describe, expect, test } from 'vitest';
import {
  countStates,
  gridRows,
  pageBounds,
  shapeOf,
} from '../../../src/clients/console/coverage-grid.ts';

const iso = (text: string) => Date.parse(`${text}Z`);
const now = iso('2024-03-13T10:30:00');

test('an interval shorter than a day is shown by days, any other one by weeks', () => {
  expect(shapeOf('hour').columns).toHaveLength(24);
  expect(shapeOf('every 5 minutes').columns).toHaveLength(24);
  expect(shapeOf('day').columns[0]).toBe('Mon');
  expect(shapeOf('week').columns).toHaveLength(7);
});

test('pages of whole rows lie side by side, the first one with now', () => {
  const shape = shapeOf('hour');
  const first = pageBounds(shape, 0, now);
  expect(first).toEqual({ start: iso('2024-02-29T00:00'), end: iso('2024-03-14T00:00') });
  expect(pageBounds(shape, 1, now).end).toBe(first.start);
  // 13 March 2024 is a Wednesday.
  expect(pageBounds(shapeOf('day'), 0, now).end).toBe(iso('2024-03-18T00:00'));
});

describe('a cell', () => {
  const bounds = { start: iso('2024-03-12T00:00'), end: iso('2024-03-14T00:00') };
  const range = (start: string, end: string, state: 'done' | 'failed', intervals: number) => ({
    start: `${start}:00Z`,
    end: `${end}:00Z`,
    state,
    intervals,
  });

  test('has the most urgent state of the intervals that it overlaps, the newest row first', () => {
    const rows = gridRows(shapeOf('every 5 minutes'), bounds, [
      range('2024-03-12T05:00', '2024-03-12T06:30', 'done', 18),
      range('2024-03-12T06:30', '2024-03-12T06:35', 'failed', 1),
    ]);
    expect(rows.map(({ name }) => name)).toEqual(['2024-03-13', '2024-03-12']);
    const cells = rows[1]?.cells ?? [];
    expect(cells.map(({ state }) => state).slice(4, 8)).toEqual([null, 'done', 'failed', null]);
    expect(cells[6]?.text).toBe('06:00 UTC: failed, done');
    expect(cells[7]?.text).toBe('07:00 UTC: no interval');
  });

  test('of a week belongs to the interval that covers it', () => {
    const week = { start: iso('2024-03-11T00:00'), end: iso('2024-03-18T00:00') };
    const ranges = [range('2024-03-10T00:00', '2024-03-17T00:00', 'failed', 1)];
    const [row] = gridRows(shapeOf('week'), week, ranges);
    expect(row?.cells.map(({ state }) => state)).toEqual([...Array(6).fill('failed'), null]);
  });

  test('the worst state wins in a cell, and a cell that was requested in part is not blank', () => {
    const never = (start: string, end: string, intervals: number) => ({
      ...range(start, end, 'done', intervals),
      state: 'never_asked' as const,
    });
    const ranges = [
      never('2024-03-12T00:00', '2024-03-12T03:00', 3),
      range('2024-03-12T03:00', '2024-03-12T05:00', 'done', 2),
      never('2024-03-12T05:00', '2024-03-12T07:00', 2),
      range('2024-03-12T07:00', '2024-03-12T08:00', 'failed', 1),
      never('2024-03-12T08:00', '2024-03-12T09:00', 1),
    ];
    const day = { start: iso('2024-03-12T00:00'), end: iso('2024-03-13T00:00') };
    const [row] = gridRows(
      { ...shapeOf('hour'), cellMs: 6 * 3_600_000, columns: ['a', 'b', 'c', 'd'] },
      day,
      ranges,
    );
    expect(row?.cells.map(({ state, glyph }) => [state, glyph]).slice(0, 2)).toEqual([
      ['never_asked', '◐'],
      ['failed', '×'],
    ]);
  });

  test('counts the intervals that begin in a selection', () => {
    const ranges = [
      range('2024-03-12T05:00', '2024-03-12T07:00', 'done', 2),
      range('2024-03-12T07:00', '2024-03-12T10:00', 'failed', 3),
    ];
    const span = { start: iso('2024-03-12T06:00'), end: iso('2024-03-12T09:00') };
    expect(countStates(ranges, span)).toBe('2 intervals failed, 1 interval done');
    expect(countStates([], span)).toBe('no interval');
  });
});
