import { expect, test } from 'vitest';
import { advanceHighWaterMark } from '../../support/high-water-mark.ts';

test.each([
  ['nothing completed', 10, [], 10],
  ['the next interval', 10, [[10, 20]], 20],
  [
    'a run of intervals in any order',
    10,
    [
      [30, 40],
      [10, 20],
      [20, 30],
    ],
    40,
  ],
  [
    'a gap at the mark',
    10,
    [
      [20, 30],
      [30, 40],
    ],
    10,
  ],
  [
    'a gap further on',
    10,
    [
      [10, 20],
      [30, 40],
    ],
    20,
  ],
  [
    'intervals before the mark',
    10,
    [
      [0, 5],
      [5, 10],
      [10, 20],
    ],
    20,
  ],
  [
    'only intervals before the mark',
    10,
    [
      [0, 10],
      [0, 5],
    ],
    10,
  ],
  [
    'the same interval twice',
    10,
    [
      [10, 20],
      [10, 20],
    ],
    20,
  ],
] as const)('%s', (_, mark, completed, expected) => {
  const intervals = completed.map(([start, end]) => ({ start, end }));
  expect(advanceHighWaterMark(mark, intervals)).toBe(expected);
});
