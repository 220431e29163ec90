import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import type { CoverageState } from '../../../foundation/domain/coverage.ts';
import { notFound, Refusal } from '../../../foundation/domain/problem.ts';
import {
  type DataInterval,
  describeInterval,
  type Instant,
  toTimestamp,
} from '../../../foundation/domain/time.ts';
import { countIntervals, intervalsIn } from '../../scheduling/backfill-range.ts';
import { boundAfter, boundAtOrBefore, type Timeline } from '../../scheduling/timeline.ts';
import { acceptIntervals } from '../../../state/store/intervals/coverage.ts';
import { lockExport } from '../../../state/store/exports/exports.ts';
import { advanceHighWaterMark } from '../../../state/store/intervals/high-water-mark.ts';
import { appendLogEntries } from '../../../state/store/exports/log-entries.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import type { Actor, Context } from '../context.ts';
import { recordExportActivity } from './activity.ts';
import { coverageOf, findMark } from './read-coverage.ts';
import { readTimeline } from './timeline.ts';

export interface AcceptRequest extends DataInterval {
  /** Kept in the activity; null if the caller gave none. */
  readonly reason: string | null;
}

export interface Accepted {
  /** Intervals that were accepted now, by the state that they had. */
  readonly counts: ReadonlyMap<CoverageState, number>;
  readonly batchExport: BatchExport;
}

/** Maximum intervals in the range of one request: they are written in one transaction. */
const maxIntervals = 10_000;

const acceptable: ReadonlySet<CoverageState> = new Set([
  'late_rows',
  'unsettled',
  'healing',
  'failed',
  'cancelled',
  'missing',
  'paused',
]);

/**
 * Accepts the intervals of a range as they are: those that are unsettled, failed, cancelled, missing or
 * paused, those whose late rows wait for a person, and those after the high-water mark that were never asked
 * for. They hold the high-water mark no longer. Files stay as they are, and an accepted interval can still be
 * exported. Late rows that waited are not looked for again.
 *
 * @throws Refusal if the range has no whole interval, too many, or ends in the future
 */
export async function acceptCoverage(
  context: Context,
  actor: Actor,
  id: string,
  { reason, ...wanted }: AcceptRequest,
): Promise<Accepted> {
  return context.db.transaction(async (tx) => {
    const locked = await lockExport(tx, id);
    if (!locked) throw notFound();
    const now = await readNow(tx);
    checkRange(wanted, now);
    const timeline = await readTimeline(tx, id, locked.schedule, wanted);
    const range = wholeIntervals(timeline, wanted);
    const mark = await findMark(tx, locked);
    const counts = new Map<CoverageState, number>();
    const intervals: DataInterval[] = [];
    for (const part of await coverageOf(tx, locked, timeline, range)) {
      const holdsMark = part.state === 'never_asked' && mark !== null && mark < part.end;
      if (!acceptable.has(part.state) && !holdsMark) continue;
      const start = holdsMark ? Math.max(part.start, mark) : part.start;
      const partIntervals = [...intervalsIn(timeline, { start, end: part.end }, 'oldest_first')];
      counts.set(part.state, (counts.get(part.state) ?? 0) + partIntervals.length);
      intervals.push(...partIntervals);
    }
    if (intervals.length === 0) return { counts, batchExport: locked };
    await acceptIntervals(tx, id, intervals);
    await advanceHighWaterMark(tx, id);
    const summary = Object.fromEntries(counts);
    const before = { from: toTimestamp(range.start), to: toTimestamp(range.end), ...summary };
    const after = { accepted: intervals.length, reason };
    const change = { field: 'coverage', before, after };
    await recordExportActivity(tx, actor, 'accepted', locked, [change]);
    const states = [...counts].map(([state, count]) => `${count} ${state}`).join(', ');
    await appendLogEntries(tx, [
      {
        teamId: locked.teamId,
        exportId: id,
        runId: null,
        level: 'INFO',
        message: `Intervals from ${describeInterval(range)} were accepted as they are: ${states}.`,
      },
    ]);
    return { counts, batchExport: (await lockExport(tx, id)) ?? locked };
  });
}

/** @throws Refusal */
function checkRange({ start, end }: DataInterval, now: Instant): void {
  if (start < 0) throw fault('from', 'from must not be before 1970.');
  if (start >= end) throw fault('from', 'from must be before to.');
  if (end > now) throw fault('to', 'to must not be in the future.');
}

/** The intervals that are completely in the range. @throws Refusal */
function wholeIntervals(timeline: Timeline, { start, end }: DataInterval): DataInterval {
  const range = { start: boundAfter(timeline, start - 1), end: boundAtOrBefore(timeline, end) };
  if (range.start >= range.end) {
    const detail = 'The range contains no whole interval. Use the bounds that coverage shows.';
    throw fault('from', detail);
  }
  const count = countIntervals(timeline, range);
  if (count > maxIntervals) {
    const detail = `The range has ${count} intervals; the maximum is ${maxIntervals}. Choose a shorter range, and accept the rest in further requests.`;
    throw fault('to', detail);
  }
  return range;
}

function fault(attr: string, detail: string): Refusal {
  return new Refusal({ code: 'invalid_input', detail, attr });
}
