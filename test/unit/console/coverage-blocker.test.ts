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

test('it says how many intervals, and why', () => {
  expect(describeBlocker(range)).toBe(
    '2 intervals not exported: the run failed. Fix the cause, then export again.',
  );
});

test('exporting again fills holes, and reads again what may have grown', () => {
  expect(reprocessOf(range)).toBe('failed');
  expect(reprocessOf({ ...range, state: 'unsettled' })).toBe('all');
  expect(reprocessOf({ ...range, state: 'late_rows' })).toBe('all');
});
