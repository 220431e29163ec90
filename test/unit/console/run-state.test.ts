import { expect, test } from 'vitest';
import { attemptsOf, stateOf } from '../../../src/clients/console/run-state.ts';

const at = '2024-03-12T05:30:00Z';
const before = Date.parse(at) - 60_000;
const waiting = {
  status: 'Running',
  attempt: 5,
  max_attempts: 10,
  next_attempt_at: at,
  latest_error: 'destination.unavailable: …',
} as const;

test('a run between two attempts is retrying, not running', () => {
  expect(stateOf(waiting, before)).toEqual({
    label: 'Retrying (5/10)',
    isRetrying: true,
    nextAt: at,
    needsWorker: false,
  });
});

test('a run whose time has come waits for a worker', () => {
  expect(stateOf(waiting, Date.parse(at))).toMatchObject({ nextAt: null, needsWorker: true });
});

test('a run that has met no error waits', () => {
  const handedBack = { ...waiting, latest_error: null };
  expect(stateOf(handedBack, before)).toMatchObject({ label: 'Waiting', isRetrying: false });
  const fresh = { ...handedBack, status: 'Starting', attempt: 0 } as const;
  expect(stateOf(fresh, before)).toMatchObject({ label: 'Waiting', nextAt: at });
});

test('an attempt in progress is running, whatever came before', () => {
  const running = { ...waiting, next_attempt_at: null };
  expect(stateOf(running, before)).toMatchObject({ label: 'Running', nextAt: null });
});

test('attempts are shown with their maximum while there can be more', () => {
  expect(attemptsOf(waiting)).toBe('5/10');
  expect(attemptsOf({ attempt: 0, max_attempts: 10 })).toBe('0');
  expect(attemptsOf({ attempt: 5, max_attempts: null })).toBe('5');
});
