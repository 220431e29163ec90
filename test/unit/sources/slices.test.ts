import { expect, test } from 'vitest';
import { countLimit, sliceInterval } from '../../../src/rows/sources/postgres/slices.ts';
import { manyRows } from '../../../src/rows/sources/source.ts';

const minute = 60_000;
const day = 24 * 60 * minute;

test.each([
  ['an hour', 60 * minute],
  ['a day', day],
  ['a month', 31 * day],
  ['all time', 20_000 * day],
])('of %s no more rows are counted than decide its slices', (_, end) => {
  const interval = { start: 0, end };
  const limit = countLimit(interval, 10 * minute);
  const slices = sliceInterval(interval, 10 * minute, limit);
  expect(limit).toBeGreaterThanOrEqual(manyRows);
  expect(limit).toBeLessThanOrEqual(200_000);
  expect(sliceInterval(interval, 10 * minute, limit + 1)).toEqual(slices);
  expect(sliceInterval(interval, 10 * minute, 1e9)).toEqual(slices);
  expect(slices.at(-1)?.end).toBe(end);
});
