import { type Static, Type } from 'typebox';
import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { type CoverageState, coverageStates } from '../../../foundation/domain/coverage.ts';
import { problemsIn, refuseIfAny } from '../../../foundation/domain/problem.ts';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import {
  ceilInstant,
  floorInstant,
  toTimestamp,
  toTimestampOrNull,
} from '../../../foundation/domain/time.ts';
import { findHoles, type Holes } from '../../../state/store/intervals/coverage.ts';
import type { DeliveredElement } from '../../../state/store/intervals/elements.ts';
import {
  type AcceptRequest,
  acceptCoverage,
  type CountedRange,
  type Coverage as Found,
  maxElements,
  readCoverage,
} from '../../use-cases/exports/coverage.ts';
import { type Api, actorOf, batchExportOf } from '../api.ts';
import { hasOffset, needsOffset, readTime } from '../batch-exports/input.ts';
import { Healing, Missing } from '../batch-exports/schema.ts';
import { healingView, missingView } from '../batch-exports/view.ts';
import { exportOperations, type Family } from '../operations.ts';
import { Element } from '../runs/schema.ts';
import { elementView } from '../runs/view.ts';
import {
  Bounds,
  boundsView,
  Int,
  IntOrNull,
  Nullable,
  PartOrNull,
  Ref,
  Resource,
  Text,
  Time,
  TimeOrNull,
} from '../shapes.ts';

const CoverageQuery = Type.Object({
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
  ...Bounds,
  state: State,
  intervals: Int('The number of data intervals.'),
});

const counts = Object.fromEntries(
  coverageStates.map((state) => [state, Type.Optional(Type.Integer())]),
) as Record<CoverageState, ReturnType<typeof Type.Optional<ReturnType<typeof Type.Integer>>>>;

const Counts = Type.Object(counts, {
  description: 'The number of intervals in each state; a state without any is absent.',
});

const Coverage = Resource('Coverage', 'The state of every data interval.', {
  from: TimeOrNull('Null if the range has no complete interval.'),
  to: Nullable(Time),
  high_water_mark: Nullable(Time),
  blocker: PartOrNull(
    'The interval that stops the high-water mark; null if the mark is at the last complete bound.',
    {
      ...CoverageRange.properties,
      healing: Int(
        'How many of its intervals Sluice exports by itself once their cause is over. What is in the state failed can heal too.',
      ),
    },
  ),
  healing: Healing,
  late_rows_wait: Type.Array(
    Type.Object({ ...Bounds, why: Text('`code: what happened and what to do`.') }),
    { description: 'The first 100 intervals of the range in the state late_rows.' },
  ),
  ranges: Type.Array(CoverageRange, {
    description: 'Oldest first, without gaps; neighbours differ in state.',
  }),
  elements: Nullable(
    Type.Array(
      Type.Object({
        ...Bounds,
        run_id: Type.String({ format: 'uuid' }),
        rows: Int('Rows in its files, deletes included.'),
        snapshot_at: TimeOrNull(
          'By the clock of the source. Null if keep_snapshots has removed it.',
        ),
        element: PartOrNull('Null: a snapshot, which has all rows.', Element),
        followed_by: IntOrNull('The next element; null: it is the newest.'),
        superseded: PartOrNull('The intervals before it that were never made; null: none.', {
          ...Bounds,
          intervals: Type.Integer(),
        }),
      }),
      {
        description: `Of the modes snapshot and changes: the newest ${maxElements} that the range has, newest first. Null: mode append.`,
      },
    ),
  ),
});
type Coverage = Static<typeof Coverage>;

const AcceptBody = Type.Object({
  from: { ...Time, description: 'With an offset. Only whole intervals of the range are accepted.' },
  to: Time,
  reason: Type.Optional(
    Nullable(Type.String({ maxLength: 1_000, description: 'Kept in the activity.' })),
  ),
});
type AcceptBody = Static<typeof AcceptBody>;

const AcceptedCoverage = Resource('AcceptedCoverage', 'What was accepted, and what is left.', {
  accepted: Int('Intervals that were accepted now.'),
  counts: Counts,
  high_water_mark: Nullable(Time),
  missing: Missing,
});

export function coverageRoutes(api: Api, family: Family): void {
  const { read, write } = exportOperations(family);

  api.get(
    '/:id/coverage',
    read('retrieveCoverage', 'Retrieve the state of every data interval', ['id'], {
      querystring: CoverageQuery,
      response: { 200: Ref(Coverage) },
    }),
    async (request) => {
      const { from, to } = request.query;
      const batchExport = batchExportOf(request);
      const coverage = await readCoverage(request.context, batchExport, {
        from: from === undefined ? null : floorInstant(readTime(from)),
        to: to === undefined ? null : ceilInstant(readTime(to)),
      });
      const holes = await findHoles(request.context.db, batchExport.id);
      return coverageView(batchExport, coverage, holes);
    },
  );

  api.post(
    '/:id/coverage/accept',
    write('acceptCoverage', 'Accept intervals that are not done as they are', ['id'], {
      body: AcceptBody,
      response: { 200: Ref(AcceptedCoverage) },
    }),
    async (request) => {
      const { id } = batchExportOf(request);
      const bounds = acceptRequest(request.body);
      const { context } = request;
      const { counts, batchExport } = await acceptCoverage(context, actorOf(request), id, bounds);
      const holes = await findHoles(request.context.db, id);
      return {
        accepted: [...counts.values()].reduce((sum, count) => sum + count, 0),
        counts: Object.fromEntries(counts) as Partial<Record<CoverageState, number>>,
        high_water_mark: toTimestampOrNull(batchExport.highWaterMark),
        missing: missingView(holes),
      };
    },
  );
}

/** @throws Refusal (400) for a bound without an offset: a guess could accept the wrong hours */
function acceptRequest({ from, to, reason }: AcceptBody): AcceptRequest {
  refuseIfAny(
    problemsIn([!hasOffset(from), 'from', needsOffset], [!hasOffset(to), 'to', needsOffset]),
  );
  const [start, end] = [ceilInstant(readTime(from)), ceilInstant(readTime(to))];
  return { start, end, reason: reason ?? null };
}

function coverageView(
  { highWaterMark }: BatchExport,
  { range, ranges, blocker, lateRowsWaits, elements }: Found,
  holes: Holes | null,
): Coverage {
  return {
    from: range && toTimestamp(range.start),
    to: range && toTimestamp(range.end),
    high_water_mark: toTimestampOrNull(highWaterMark),
    blocker: blocker && { ...rangeView(blocker), healing: blocker.healing },
    healing: healingView(holes),
    late_rows_wait: lateRowsWaits.map(({ why, ...bounds }) => ({ ...boundsView(bounds), why })),
    elements: elements === null ? null : elements.map(deliveredView),
    ranges: ranges.map(rangeView),
  };
}

function deliveredView({ interval, element, superseded, ...delivered }: DeliveredElement) {
  return {
    ...boundsView(interval),
    ...inSnakeCase(delivered),
    element: element && elementView(element),
    superseded: superseded && { ...boundsView(superseded), intervals: superseded.intervals },
  };
}

const rangeView = ({ state, intervals, ...bounds }: CountedRange) => ({
  ...{ ...boundsView(bounds), state, intervals },
});
