import { expect, test } from 'vitest';
import {
  describeBlocker,
  needsOperator,
  reprocessOf,
} from '../../../src/clients/console/coverage-blocker.ts';

const now = Date.parse('2024-03-12T18:00:00Z');
const range = {
  start: '2024-03-12T12:00:00Z',
  end: '2024-03-12T14:00:00Z',
  state: 'failed',
  intervals: 2,
  healing: 0,
} as const;

test.each([
  ['failed', true],
  ['unsettled', true],
  ['late_rows', true],
  ['cancelled', true],
  ['missing', true],
  ['paused', true],
  ['never_asked', true],
  ['running', false],
  ['retrying', false],
] as const)('an interval that is %s needs an operator: %s', (state, needs) => {
  expect(needsOperator({ ...range, state }, now)).toBe(needs);
});

test('an interval that has just ended is not called one that no one asked for', () => {
  const fresh = { ...range, state: 'never_asked', end: '2024-03-12T17:58:00Z' } as const;
  expect(needsOperator(fresh, now)).toBe(false);
});

test.each([
  [2, 0, false, 'Sluice does not try again by itself. Fix the cause, then export again.'],
  [2, 2, false, 'Once the cause is fixed, Sluice exports them by itself.'],
  [1, 1, false, 'Once the cause is fixed, Sluice exports it by itself.'],
  [
    2,
    2,
    true,
    'Once the cause is fixed and the export is unpaused, Sluice exports them by itself.',
  ],
  [
    3,
    2,
    false,
    'Once the cause is fixed, Sluice exports 2 of them by itself. Then export the others again.',
  ],
])(
  'of %i failed intervals %i heal (paused by a person: %s): it says what happens next',
  (intervals, healing, waits, next) => {
    const count = intervals === 1 ? '1 interval' : `${intervals} intervals`;
    expect(describeBlocker({ ...range, intervals, healing }, waits)).toBe(
      `${count} not exported: the run failed. ${next}`,
    );
  },
);

test('it says why other intervals hold the mark', () => {
  expect(describeBlocker({ ...range, state: 'paused' }, false)).toBe(
    '2 intervals not exported: the export was paused.',
  );
});

test('exporting again fills holes, and reads again what may have grown', () => {
  expect(reprocessOf(range)).toBe('failed');
  expect(reprocessOf({ ...range, state: 'unsettled' })).toBe('all');
  expect(reprocessOf({ ...range, state: 'late_rows' })).toBe('all');
});
