import { type Static, Type } from 'typebox';
import { reprocessChoices } from '../../../foundation/domain/backfill.ts';
import {
  Bounds,
  Flag,
  Int,
  IntOrNull,
  MissingRows,
  Nullable,
  OptionalInt,
  Resource,
  TextOrNull,
  Time,
  TimeOrNull,
  UuidOrNull,
} from '../shapes.ts';

const order = ['oldest_first', 'newest_first'] as const;

export const Backfill = Resource(
  'Backfill',
  'A request to export a past range. Sluice widens the bounds to whole intervals.',
  {
    id: Type.String({ format: 'uuid' }),
    batch_export: Type.String({ format: 'uuid' }),
    team_id: Type.Integer(),
    status: Type.Enum(['Running', 'Completed', 'Cancelled']),
    start_at: Time,
    end_at: Time,
    order: Type.Enum([...order]),
    reprocess: Type.Enum([...reprocessChoices]),
    missing_rows: MissingRows,
    concurrency: Type.Integer(),
    total_runs: Type.Integer(),
    finished_runs: Type.Integer(),
    failed_runs: Type.Integer(),
    records_completed: Int('Rows in the files of its completed runs.'),
    bytes_exported: Int('Bytes of these files.'),
    progress: Type.Number({ minimum: 0, maximum: 1 }),
    eta: TimeOrNull('Estimated end time; null before 5% of the runs have ended.'),
    created_at: Time,
    finished_at: Nullable(Time),
    stopped_reason: TextOrNull(
      'Why Sluice stopped the backfill: ten runs in a row have ended as Failed, with the error of the last one. Its status is `Cancelled`, and the schedule goes on. Null if Sluice did not stop it.',
    ),
    last_updated_at: Time,
  },
);
export type Backfill = Static<typeof Backfill>;

export const BackfillBody = Type.Object({
  start_at: Type.Optional(Nullable(Time)),
  end_at: Type.Optional(Nullable(Time)),
  dry_run: Type.Optional(Flag('Only return a preview.')),
  order: Type.Optional(Type.Enum([...order])),
  reprocess: Type.Optional(
    Type.Enum([...reprocessChoices], {
      description:
        'Which intervals to export. `all`: every interval. `failed`: intervals without exported data. `missing`: of these, only intervals that the schedule or a backfill asked for, as the field `missing` of the export counts them. `none`: intervals that never had a run. An interval with a live run gets no second run. With `all`, the backfill waits until a run that has started ends, and then runs its interval again. Default: `all`.',
    }),
  ),
  missing_rows: Type.Optional(MissingRows),
  shown_rows: Type.Optional(
    Nullable(
      Type.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description:
          'With `missing_rows: drop`: `totals.would_go` of the dry run that the person has seen. The statement of the removal has it. Null, or missing: they have seen none.',
      }),
    ),
  ),
  concurrency: OptionalInt({ minimum: 1, maximum: 100, description: 'Maximum runs at a time.' }),
});
export type BackfillBody = Static<typeof BackfillBody>;

const goingRows = {
  delivered_rows: Int('Rows in the current files, rejected ones included.'),
  rows_now: IntOrNull(
    'Rows that the source has now. Null if it was not asked, as for an interval without delivered rows.',
  ),
  would_go: IntOrNull(
    'Delivered rows that the source no longer has. A run with `missing_rows: drop` would remove them. Null if it is not known.',
  ),
  would_go_is: Type.Union([Type.Enum(['exact', 'at_least']), Type.Null()], {
    description:
      '`exact`: the keys of the source are those of the files, or one of the two has no rows. `at_least`: the rows were only counted. Null if `would_go` is null.',
  }),
};

export const BackfillPreview = Resource(
  'BackfillPreview',
  'Preview of a backfill. Nothing is stored.',
  {
    dry_run: Type.Literal(true),
    start_at: Time,
    end_at: Time,
    total_runs: Int('Number of runs that the backfill would create.'),
    skipped: Int('Number of intervals without a new run, because of `reprocess` or a live run.'),
    intervals: Type.Array(Type.Object({ ...Bounds, ...goingRows }), {
      description: 'The intervals of the first 1,000 runs, in order.',
    }),
    totals: Type.Object(
      {
        ...goingRows,
        compared_intervals: Int('Intervals whose rows in the source were counted.'),
        left_out: TextOrNull(
          'How many intervals with delivered rows were not compared with the source, and why; null if all were. A request looks at up to 200 intervals, for up to 10 seconds.',
        ),
      },
      {
        description:
          'The sums over all intervals with delivered rows. `rows_now` is null unless all were compared. If some were not, `would_go` is at least what the others lack.',
      },
    ),
    already_completed: Type.Array(Type.Object(Bounds)),
    estimated_rows: IntOrNull(
      'Estimated from earlier runs of this export; null if there are none.',
    ),
    estimated_bytes: IntOrNull('Of the files; estimated likewise.'),
  },
);
export type BackfillPreview = Static<typeof BackfillPreview>;

export const RunNow = Resource('RunNow', 'What was started, or why nothing was.', {
  backfill_id: UuidOrNull('The backfill that exports them; null: none.'),
  start_at: Nullable(Time),
  end_at: Nullable(Time),
  total_runs: Type.Integer({ minimum: 0 }),
  reason: TextOrNull('Why nothing was started; null: it was.'),
});

export const CancelBackfillBody = Type.Object({
  running: Type.Optional(
    Type.Enum(['finish', 'cancel'], { description: 'What happens to its live runs.' }),
  ),
});
