import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import type { CoverageState } from '../../../foundation/domain/coverage.ts';
import { toTimestamp, toTimestampOrNull } from '../../../foundation/domain/time.ts';
import type { CountedRange, Coverage as Found } from '../../use-cases/exports/read-coverage.ts';
import type { Holes } from '../../../state/store/intervals/coverage.ts';
import { healingView } from '../batch-exports/view.ts';
import type { Coverage } from './schema.ts';

export function coverageView(
  { highWaterMark }: BatchExport,
  { range, ranges, days, blocker, lateRowsWaits }: Found,
  holes: Holes | null,
): Coverage {
  return {
    from: range && toTimestamp(range.start),
    to: range && toTimestamp(range.end),
    high_water_mark: toTimestampOrNull(highWaterMark),
    blocker: blocker && { ...rangeView(blocker), healing: blocker.healing },
    healing: healingView(holes),
    late_rows_wait: lateRowsWaits.map(({ start, end, why }) => ({
      start: toTimestamp(start),
      end: toTimestamp(end),
      why,
    })),
    ...(ranges && { ranges: ranges.map(rangeView) }),
    ...(days && {
      days: days.map(({ day, counts }) => ({
        day: toTimestamp(day).slice(0, 10),
        counts: countsView(counts),
      })),
    }),
  };
}

function rangeView({ start, end, state, intervals }: CountedRange) {
  return { start: toTimestamp(start), end: toTimestamp(end), state, intervals };
}

export function countsView(counts: ReadonlyMap<CoverageState, number>) {
  return Object.fromEntries(counts) as Partial<Record<CoverageState, number>>;
}
