import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { parseTime } from '../../../foundation/domain/parse-time.ts';
import { type Problem, Refusal } from '../../../foundation/domain/problem.ts';
import {
  ceilInstant,
  type DataInterval,
  floorInstant,
  type Instant,
  toTimestamp,
  toTimestampOrNull,
} from '../../../foundation/domain/time.ts';
import { findHoles, type Holes } from '../../../state/store/intervals/coverage.ts';
import type { DeliveredElement } from '../../../state/store/intervals/elements.ts';
import { acceptCoverage, type AcceptRequest } from '../../use-cases/exports/accept-coverage.ts';
import {
  type CountedRange,
  type Coverage as Found,
  readCoverage,
} from '../../use-cases/exports/read-coverage.ts';
import { actorOf, type Api, batchExportOf } from '../api.ts';
import { elementView } from '../runs/view.ts';
import { healingView, missingView } from '../batch-exports/view.ts';
import { exportOperations, type Family } from '../operations.ts';
import { Ref } from '../schemas/shapes.ts';
import { AcceptBody, AcceptedCoverage, Coverage, CoverageQuery } from './schema.ts';
import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import type { CoverageState } from '../../../foundation/domain/coverage.ts';

/** The state of every data interval of an export, and the acceptance of those that are not done. */
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
        from: from === undefined ? null : floorInstant(timestampOf(from)),
        to: to === undefined ? null : ceilInstant(timestampOf(to)),
      });
      return coverageView(
        batchExport,
        coverage,
        await findHoles(request.context.db, batchExport.id),
      );
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
      const { counts, batchExport } = await acceptCoverage(
        request.context,
        actorOf(request),
        id,
        bounds,
      );
      const holes = await findHoles(request.context.db, id);
      return {
        accepted: [...counts.values()].reduce((sum, count) => sum + count, 0),
        counts: countsView(counts),
        high_water_mark: toTimestampOrNull(batchExport.highWaterMark),
        missing: missingView(holes),
      };
    },
  );
}

/** `text` has passed the schema's format. */
function timestampOf(text: string): string {
  const parsed = parseTime(text);
  if (!parsed) throw new Error(`the schema accepted ${text} as a time`);
  return parsed.timestamp;
}

/** @throws Refusal (400) for a bound without an offset: a guess could accept the wrong hours */
function acceptRequest({ from, to, reason }: AcceptBody): AcceptRequest {
  const problems: Problem[] = [];
  const readBound = (attr: string, text: string): Instant => {
    if (parseTime(text)?.hasOffset !== true) {
      const detail = 'Must have an offset from UTC, such as 2024-03-01T00:00:00Z.';
      problems.push({ code: 'invalid_input', detail, attr });
    }
    return ceilInstant(timestampOf(text));
  };
  const [start, end] = [readBound('from', from), readBound('to', to)];
  if (problems.length > 0) throw new Refusal(...problems);
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

const boundsView = ({ start, end }: DataInterval) => ({
  start: toTimestamp(start),
  end: toTimestamp(end),
});

const rangeView = ({ state, intervals, ...bounds }: CountedRange) => ({
  ...{ ...boundsView(bounds), state, intervals },
});

function countsView(counts: ReadonlyMap<CoverageState, number>) {
  return Object.fromEntries(counts) as Partial<Record<CoverageState, number>>;
}
