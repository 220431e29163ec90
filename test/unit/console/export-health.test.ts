import { describe, expect, test } from 'vitest';
import type { BatchExport, Run, RunStatus } from '../../../src/clients/console/api-types.ts';
import {
  describeDestination,
  describeLag,
  describeMissing,
  failureOf,
  intervalMs,
  intervalsBehind,
} from '../../../src/clients/console/export-health.ts';

const now = Date.parse('2024-03-12T18:00:00Z');

function run(status: RunStatus): Run {
  return {
    id: 'r',
    status,
    records_completed: null,
    records_total_count: null,
    records_dropped: 0,
    records_rejected: 0,
    element: null,
    latest_error: null,
    superseded: false,
    data_interval_start: '2024-03-12T16:00:00Z',
    data_interval_end: '2024-03-12T17:00:00Z',
    cursor: null,
    created_at: '2024-03-12T17:00:00Z',
    started_at: null,
    finished_at: null,
    last_updated_at: '2024-03-12T17:00:00Z',
    batch_export: 'e',
    attempt: 1,
    max_attempts: null,
    next_attempt_at: null,
    waiting_for: null,
    bytes_exported: 0,
    files: 0,
    backfill_id: null,
    purpose: 'whole',
    settled: true,
    step: null,
    steps: null,
  };
}

function hourly(over: Partial<BatchExport> = {}): BatchExport {
  return {
    id: 'e',
    team_id: 1,
    name: 'Events',
    destination: { type: 'S3', config: { bucket_name: 'acme', prefix: 'events' } },
    secrets: [],
    interval: 'hour',
    mode: 'append',
    keep_snapshots: 30,
    new_base: 0,
    paused: false,
    paused_reason: null,
    created_at: '2024-03-01T00:00:00Z',
    last_updated_at: '2024-03-01T00:00:00Z',
    last_paused_at: null,
    start_at: null,
    end_at: null,
    heal_for_hours: 168,
    statement_shows: 'digests',
    look_back_hours: null,
    late_rows_added: null,
    deadline_minutes: null,
    deadline_at: null,
    warn_minutes: null,
    healing: null,
    late_since: null,
    latest_runs: [],
    dsl_query: null,
    schema: null,
    filters: null,
    model: 'events',
    timezone: 'UTC',
    offset_day: null,
    offset_hour: null,
    transformations: false,
    next_run_at: null,
    high_water_mark: '2024-03-12T17:00:00Z',
    unsettled_from: null,
    missing: { count: 0, since: null },
    health: 'fine',
    health_reason: null,
    failure_streak: 0,
    last_success_at: null,
    ...over,
  };
}

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
