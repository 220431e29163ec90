import { type Static, Type } from 'typebox';
import { runSteps } from '../../../foundation/domain/run-step.ts';
import { runFilters, runPurposes, runStatuses } from '../../../foundation/domain/run.ts';
import { CursorQuery } from '../lists.ts';
import {
  Flag,
  Int,
  IntOrNull,
  MissingRows,
  Nullable,
  OptionalText,
  PartOrNull,
  Resource,
  Text,
  TextOrNull,
  Time,
  TimeOrNull,
} from '../shapes.ts';

export const Element = {
  number: Type.Integer(),
  follows: IntOrNull('The element that it continues.'),
  base: TextOrNull('Why it has all rows; null: it has what changed.'),
  from_version: TextOrNull('The lowest version in it.'),
  next_version: TextOrNull('The lowest version of the element that continues it.'),
  snapshot_at: Time,
  deletes: Type.Integer(),
};

export const BatchExportRun = Resource('BatchExportRun', 'The work for one data interval.', {
  id: Type.String({ format: 'uuid' }),
  status: Type.Enum([...runStatuses]),
  records_completed: IntOrNull('Rows in the files so far.'),
  latest_error: TextOrNull('`code: what happened and what to do`; null if there was no error.'),
  superseded: Flag(
    'True if this run ended without success and its interval was exported afterwards: nothing is left to do about it.',
  ),
  data_interval_start: Nullable(Time),
  data_interval_end: Time,
  cursor: TextOrNull('How far the newest attempt has come; null before its first part.'),
  created_at: Time,
  started_at: Nullable(Time),
  finished_at: Nullable(Time),
  last_updated_at: Time,
  records_total_count: IntOrNull(
    'Rows of the interval. From 20,000 rows on, Sluice counts them while it reads: null until then.',
  ),
  batch_export: Type.String({ format: 'uuid' }),
  attempt: Int('Attempts so far; 0 before the first.'),
  max_attempts: IntOrNull(
    'Maximum attempts. If all of them fail with transient errors, the run ends as FailedRetryable. If a shutdown or a dead worker ends an attempt, it does not count, and this number increases by one. Null after the end.',
  ),
  next_attempt_at: TimeOrNull(
    'The next attempt starts at this time, or later when a worker is free. Null while an attempt is in progress, and after the end.',
  ),
  waiting_for: Nullable(
    Type.Array(Type.String(), {
      description:
        'The sessions and prepared transactions of the source that may still add rows to the interval, while the run waits for them. Empty if they are not known yet; null if the run does not wait.',
    }),
  ),
  step: PartOrNull(
    'What the attempt in progress is doing, and since when. Null without one, and in its first seconds.',
    {
      name: Type.Enum([...runSteps]),
      since: Time,
      is_long: Flag(
        'True after a minute, and three times as long as a usual run of the export takes.',
      ),
      text: Text('`reading from the source for 7 min, the first row has not come; usually 2 s`'),
    },
  ),
  bytes_exported: Type.Integer(),
  files: Type.Integer(),
  records_dropped: Int('Rows that a transformation dropped.'),
  records_rejected: Int('Rows kept in the rejected file.'),
  backfill_id: Nullable(Type.String({ format: 'uuid' })),
  purpose: Type.Enum([...runPurposes], {
    description:
      '`whole`: makes the files of the interval from all its rows. `supplement`: adds files with late rows. `erase`: removes the rows of a person from the files. `expire`: removes the files of a snapshot, by keep_snapshots.',
  }),
  settled: Nullable(
    Flag(
      'True once no open transaction can add rows to the interval; null until the run completes.',
    ),
  ),
  element: PartOrNull(
    'Of mode changes: what the run has delivered. Null before that, and of other modes.',
    Element,
  ),
  steps: Nullable(
    Type.Array(
      Type.Object({
        config: Int('The transformation config.'),
        in: Type.Integer(),
        out: Type.Integer(),
        dropped: Type.Integer(),
        errored: Type.Integer(),
        time_ms: Int(
          'Milliseconds that the step took for its rows; an estimate for built-in plugins.',
        ),
        error: TextOrNull('The first error, without values.'),
      }),
      {
        description:
          'Rows of each step of the transformation chain, in its order; null until the run completes.',
      },
    ),
  ),
});
export type BatchExportRun = Static<typeof BatchExportRun>;

export const RetryBody = Type.Object({ missing_rows: Type.Optional(MissingRows) });

/** A bound of a list: ISO 8601, or a span back from now. */
export const TimeOrSpan = (about: string) =>
  OptionalText({
    format: 'time-or-span',
    description: `${about}: ISO 8601, or back from now: \`-2h\`, \`-7d\`, \`-4w\`, \`-3m\`, \`-1y\`.`,
  });

export const RunListQuery = Type.Object({
  ...CursorQuery,
  status: Type.Optional(
    Type.Array(Type.Enum([...runFilters]), {
      description:
        'May be repeated. Retrying is no status of a run: it has not ended, and an attempt has failed.',
    }),
  ),
  ordering: Type.Optional(
    Type.Enum(['created_at', '-created_at', 'data_interval_start', '-data_interval_start']),
  ),
  after: TimeOrSpan('Created at or after'),
  before: TimeOrSpan('Created at or before'),
  start: TimeOrSpan('Interval starts at or after'),
  end: TimeOrSpan('Interval ends at or before'),
});
