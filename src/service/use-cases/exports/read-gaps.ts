import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { type DataInterval, floorInstant } from '../../../foundation/domain/time.ts';
import { countIntervals } from '../../scheduling/backfill-range.ts';
import { boundAtOrBefore } from '../../scheduling/timeline.ts';
import { findOldestInterval } from '../../../state/store/intervals/coverage.ts';
import { findGaps } from '../../../state/store/intervals/gaps.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import type { Context } from '../context.ts';
import { readTimeline } from './timeline.ts';

export interface Gap extends DataInterval {
  readonly intervals: number;
}

/**
 * Stretches of whole intervals that neither the schedule nor a backfill requested, between intervals that were requested, newest
 * first: a backfill that ended before the first tick leaves one.
 */
export async function readGaps(
  { db }: Pick<Context, 'db'>,
  batchExport: BatchExport,
): Promise<readonly Gap[]> {
  const { id, schedule } = batchExport;
  const oldest = await findOldestInterval(db, id);
  if (oldest === null) return [];
  const created = floorInstant(batchExport.createdAt);
  const range = { start: Math.min(oldest, created), end: await readNow(db) };
  const timeline = await readTimeline(db, id, schedule, range);
  const gaps = await findGaps(db, id, boundAtOrBefore(timeline, created));
  return gaps
    .map((gap) => ({ ...gap, intervals: countIntervals(timeline, gap) }))
    .filter(({ intervals }) => intervals > 0);
}
