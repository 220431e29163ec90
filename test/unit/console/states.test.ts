import { describe, expect, test } from 'vitest';
import type { BatchExport, Run, RunStatus } from '../../../src/clients/console/api-types.ts';
import {
  describeBlocker,
  needsOperator,
  reprocessOf,
} from '../../../src/clients/console/coverage-blocker.ts';
import {
  describeDestination,
  describeLag,
  describeMissing,
  failureOf,
  intervalMs,
  intervalsBehind,
} from '../../../src/clients/console/export-health.ts';
import { createRepeatKeys } from '../../../src/clients/console/repeat-keys.ts';
import { attemptsOf, stateOf } from '../../../src/clients/console/run-state.ts';
import { readServiceFaults } from '../../../src/clients/console/service-faults.ts';

const now = Date.parse('2024-03-12T18:00:00Z');

/** What is read of it. */
const run = (status: RunStatus) => ({ id: 'r', status, latest_error: null }) as Run;

const hourly = (over: Partial<BatchExport> = {}) =>
  ({
    ...{ interval: 'hour', paused: false, health: 'fine', latest_runs: [] },
    ...{ high_water_mark: '2024-03-12T17:00:00Z', unsettled_from: null },
    missing: { count: 0, since: null },
    ...over,
  }) as BatchExport;

test.each([
  ['hour', 3_600_000],
  ['day', 86_400_000],
  ['week', 604_800_000],
  ['every 5 minutes', 300_000],
  ['fortnight', null],
])('the length of %j is %j ms', (interval, ms) => {
  expect(intervalMs(interval)).toBe(ms);
});

describe('the lag', () => {
  test('is none while the newest interval is still open', () => {
    expect(describeLag(hourly(), now)).toBe('up to date');
  });

  test('gives a run that has just come due the time it takes', () => {
    expect(intervalsBehind(hourly(), now + 60_000)).toBe(0);
  });

  test('counts whole intervals that are missing', () => {
    const old = hourly({ high_water_mark: '2024-03-12T14:00:00Z' });
    expect(describeLag(old, now)).toBe('3 intervals behind');
    expect(describeLag(hourly({ high_water_mark: '2024-03-12T16:50:00Z' }), now)).toBe(
      '1 interval behind',
    );
  });

  test('is not known before the first completed interval', () => {
    expect(describeLag(hourly({ high_water_mark: null }), now)).toBeNull();
  });
});

describe('over a hole', () => {
  const since = '2024-03-12T02:00:00Z';

  test('the lag is never up to date', () => {
    expect(describeLag(hourly({ missing: { count: 4, since } }), now)).toBeNull();
    expect(describeLag(hourly({ unsettled_from: since }), now)).toBeNull();
    expect(describeLag(hourly({ health: 'late' }), now)).toBeNull();
    const late = { missing: { count: 4, since }, high_water_mark: '2024-03-12T14:00:00Z' };
    expect(describeLag(hourly(late), now)).toBe('3 intervals behind');
  });

  test('the intervals without data are counted', () => {
    expect(describeMissing(hourly())).toBeNull();
    expect(describeMissing(hourly({ missing: { count: 1, since } }))).toBe(
      '1 interval without data',
    );
    expect(describeMissing(hourly({ missing: { count: 1_000, since } }))).toBe(
      'at least 1,000 intervals without data',
    );
  });
});

describe('the reason on a failing row', () => {
  const failed = { ...run('Failed'), latest_error: 'destination.denied: Access denied.' };

  test.each([
    ['is that of the failure', 'failing', [run('Running'), failed, run('Completed')], failed],
    ['survives a cancelled run', 'failing', [run('Cancelled'), failed], failed],
    ['survives a pause', 'paused', [run('Cancelled'), failed], failed],
    ['is over after a success, also in a pause', 'paused', [run('Completed'), failed], null],
    ['is over if the service says so', 'fine', [failed], null],
    ['is none before the first run', 'failing', [], null],
  ] as const)('%s', (_name, health, latest_runs, expected) => {
    expect(failureOf(hourly({ health, latest_runs: [...latest_runs] }))).toBe(expected);
  });
});

test.each([
  [{ type: 'S3', config: { bucket_name: 'acme', prefix: 'events' } }, 'S3 · acme/events'],
  [{ type: 'S3', config: { bucket_name: 'acme', prefix: '' } }, 'S3 · acme'],
  [{ type: 'File', config: { directory: 'copy' } }, 'File · copy'],
  [{ type: 'NoOp', config: {} }, 'NoOp'],
])('a destination is described in a few words', (destination, text) => {
  expect(describeDestination({ destination })).toBe(text);
});

describe('what holds the mark', () => {
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
});

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

test('each part that is not ok is named with its reason', () => {
  const checks = { postgres: 'ok', queue: 'ok', era: 'ok', workers: 'no worker has reported' };
  expect(readServiceFaults({ status: 'degraded', checks })).toEqual([
    'Workers: no worker has reported.',
  ]);
});

test.each([[null], [{}], [{ checks: null }], [{ status: 'starting' }], ['text']])(
  'an answer of another shape shows nothing: %j',
  (answer) => {
    expect(readServiceFaults(answer)).toEqual([]);
  },
);

const minute = 60_000;

function keysAt(time: { now: number }) {
  let made = 0;
  return createRepeatKeys(
    () => {
      made += 1;
      return String(made);
    },
    () => time.now,
  );
}

test('a change that is sent again has the same key, until an answer is there', () => {
  const keys = keysAt({ now: 0 });
  const first = keys.of('/a', '{}');
  expect(keys.of('/a', '{}').key).toBe(first.key);
  first.forget();
  const second = keys.of('/a', '{}');
  expect(second.key).not.toBe(first.key);
  // A late answer of the first says nothing of the second.
  first.forget();
  expect(keys.of('/a', '{}').key).toBe(second.key);
});

test('other changes have other keys, and the same one has another key later', () => {
  const time = { now: 0 };
  const keys = keysAt(time);
  const { key } = keys.of('/a', '{}');
  expect(keys.of('/b', '{}').key).not.toBe(key);
  expect(keys.of('/a', '{"b":1}').key).not.toBe(key);
  time.now = 5 * minute;
  expect(keys.of('/a', '{}').key).toBe(key);
  time.now += 1;
  expect(keys.of('/a', '{}').key).not.toBe(key);
});

test('nothing is kept after a sign-out', () => {
  const keys = keysAt({ now: 0 });
  const { key } = keys.of('/a', '{}');
  keys.clear();
  expect(keys.of('/a', '{}').key).not.toBe(key);
});
