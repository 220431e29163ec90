import { type Static, Type } from 'typebox';
import { type CoverageState, coverageStates } from '../../../foundation/domain/coverage.ts';
import { maxElements } from '../../use-cases/exports/read-coverage.ts';
import { Healing, Missing } from '../batch-exports/schema.ts';
import { Element } from '../runs/schema.ts';
import { Nullable, named, Time } from '../schemas/shapes.ts';

export const CoverageQuery = Type.Object({
  from: Type.Optional({
    ...Time,
    description: 'Sluice widens it to whole intervals. Default: the oldest requested interval.',
  }),
  to: Type.Optional({
    ...Time,
    description: 'Sluice widens it, up to the last complete interval. Default: now.',
  }),
});

const State = Type.Enum([...coverageStates], {
  description:
    'done: exported. late_rows: exported, but rows may have come late, and Sluice cannot add them without a person, or cannot look for them; `late_rows_wait` says why. accepted: an operator accepted it as it is. superseded: never made, because a later interval took its place (mode snapshot). unsettled: exported, but may still receive rows. running: a run or a backfill is in progress. retrying: the same, after a failed attempt. healing: all attempts failed, and Sluice tries again by itself; `healing` says when. failed, cancelled: its last run failed or was cancelled. missing: it was due, and its run was deleted. paused: it was due during a pause. never_asked: neither the schedule nor a backfill requested it.',
});

const CoverageRange = Type.Object({
  start: Time,
  end: Time,
  state: State,
  intervals: Type.Integer({ description: 'The number of data intervals.' }),
});

const counts = Object.fromEntries(
  coverageStates.map((state) => [state, Type.Optional(Type.Integer())]),
) as Record<CoverageState, ReturnType<typeof Type.Optional<ReturnType<typeof Type.Integer>>>>;

const Counts = Type.Object(counts, {
  description: 'The number of intervals in each state; a state without any is absent.',
});

export const Coverage = named(
  'Coverage',
  Type.Object(
    {
      from: Nullable({ ...Time, description: 'Null if the range has no complete interval.' }),
      to: Nullable(Time),
      high_water_mark: Nullable(Time),
      blocker: Nullable(
        Type.Object(
          {
            ...CoverageRange.properties,
            healing: Type.Integer({
              description:
                'How many of its intervals Sluice exports by itself once their cause is over. What is in the state failed can heal too.',
            }),
          },
          {
            description:
              'The interval that stops the high-water mark; null if the mark is at the last complete bound.',
          },
        ),
      ),
      healing: Healing,
      late_rows_wait: Type.Array(
        Type.Object({
          start: Time,
          end: Time,
          why: Type.String({ description: '`code: what happened and what to do`.' }),
        }),
        { description: 'The first 100 intervals of the range in the state late_rows.' },
      ),
      ranges: Type.Array(CoverageRange, {
        description: 'Oldest first, without gaps; neighbours differ in state.',
      }),
      elements: Nullable(
        Type.Array(
          Type.Object({
            start: Time,
            end: Time,
            run_id: Type.String({ format: 'uuid' }),
            rows: Type.Integer({ description: 'Rows in its files, deletes included.' }),
            snapshot_at: Nullable({
              ...Time,
              description: 'By the clock of the source. Null if keep_snapshots has removed it.',
            }),
            element: Nullable(
              Type.Object(Element, { description: 'Null: a snapshot, which has all rows.' }),
            ),
            followed_by: Nullable(
              Type.Integer({ description: 'The next element; null: it is the newest.' }),
            ),
            superseded: Nullable(
              Type.Object(
                { start: Time, end: Time, intervals: Type.Integer() },
                { description: 'The intervals before it that were never made; null: none.' },
              ),
            ),
          }),
          {
            description: `Of the modes snapshot and changes: the newest ${maxElements} that the range has, newest first. Null: mode append.`,
          },
        ),
      ),
    },
    { description: 'The state of every data interval.' },
  ),
);
export type Coverage = Static<typeof Coverage>;

export const AcceptBody = Type.Object({
  from: { ...Time, description: 'With an offset. Only whole intervals of the range are accepted.' },
  to: Time,
  reason: Type.Optional(
    Nullable(Type.String({ maxLength: 1_000, description: 'Kept in the activity.' })),
  ),
});
export type AcceptBody = Static<typeof AcceptBody>;

export const AcceptedCoverage = named(
  'AcceptedCoverage',
  Type.Object(
    {
      accepted: Type.Integer({ description: 'Intervals that were accepted now.' }),
      counts: Counts,
      high_water_mark: Nullable(Time),
      missing: Missing,
    },
    { description: 'What was accepted, and what is left.' },
  ),
);
export type AcceptedCoverage = Static<typeof AcceptedCoverage>;
