import type { Schedule } from '../../../foundation/domain/schedule.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import { spansToDecide, type Timeline, timelineOf } from '../../scheduling/timeline.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { findDecidedIntervals } from '../../../state/store/intervals/decided-intervals.ts';

/**
 * The bounds of an export's intervals in and around `range`. Sends no statement for an export whose intervals do not
 * depend on the zone database.
 */
export async function readTimeline(
  sql: Sql,
  exportId: string,
  schedule: Schedule,
  range: DataInterval,
): Promise<Timeline> {
  const spans = spansToDecide(schedule.cadences, range);
  if (spans.length === 0) return timelineOf(schedule, []);
  return timelineOf(schedule, await findDecidedIntervals(sql, exportId, spans));
}
