import { describeError } from '../../../foundation/domain/describe-error.ts';
import { SluiceError, toSluiceError } from '../../../foundation/domain/errors.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { Source } from '../../../rows/sources/source.ts';
import { type RowChoice, sourceRequestOf } from '../runs/source-request.ts';

export interface DeliveredInterval extends DataInterval {
  /** Rows in its current files, rejected ones included. */
  readonly deliveredRows: number;
  /** A digest of the keys of these rows; null if it is not known, or if a transformation chain may drop some of them now. */
  readonly deliveredDigest: string | null;
}

export interface ComparedInterval extends DeliveredInterval {
  /** Null if the source was not asked. */
  readonly rowsNow: number | null;
  /** Delivered rows that the new files would lack; null if that is not known. */
  readonly wouldGo: { readonly rows: number; readonly isExact: boolean } | null;
}

export interface Comparison {
  readonly intervals: readonly ComparedInterval[];
  /** The number of omitted intervals with delivered rows, and the reason; null if there are none. */
  readonly leftOut: string | null;
}

const maxLooks = 200;

/**
 * Asks the source how many rows it has now for intervals that have delivered rows; of the others no row can go. A look that
 * fails ends the comparison: what was found until then is the result.
 *
 * @param signal ends it when the request has taken too long
 */
export async function compareRows(
  source: Source,
  choice: RowChoice,
  intervals: readonly DeliveredInterval[],
  signal: AbortSignal,
): Promise<Comparison> {
  const delivered = intervals.filter(({ deliveredRows }) => deliveredRows > 0);
  const comparedIntervals = new Map<DeliveredInterval, ComparedInterval>();
  let why: string | null = null;
  try {
    for (const interval of delivered.slice(0, maxLooks)) {
      comparedIntervals.set(interval, await look(source, choice, interval, signal));
    }
  } catch (error) {
    if (!signal.aborted && !(error instanceof SluiceError)) throw error;
    why = signal.aborted ? 'The source took too long.' : describeError(toSluiceError(error));
  }
  const omitted = delivered.length - comparedIntervals.size;
  const reason = why ?? `A request looks at up to ${maxLooks} intervals.`;
  const text = `Intervals with delivered rows that were not compared with the source: ${omitted}. ${reason}`;
  return {
    intervals: intervals.map((interval) => comparedIntervals.get(interval) ?? unseen(interval)),
    leftOut: omitted === 0 ? null : text,
  };
}

const unseen = (interval: DeliveredInterval): ComparedInterval => ({
  ...interval,
  rowsNow: null,
  wouldGo: interval.deliveredRows === 0 ? { rows: 0, isExact: true } : null,
});

async function look(
  source: Source,
  choice: RowChoice,
  interval: DeliveredInterval,
  signal: AbortSignal,
): Promise<ComparedInterval> {
  const { start, end, deliveredRows: delivered, deliveredDigest: digest } = interval;
  const request = sourceRequestOf(choice, { start, end });
  const snapshot = await source.open({ ...request, select: 'keys' }, signal);
  const rowsNow = await snapshot.countRows(signal).finally(() => snapshot.close());
  const counted = { ...interval, rowsNow };
  const least = Math.max(0, delivered - rowsNow);
  if (digest === null || rowsNow !== delivered) {
    return { ...counted, wouldGo: { rows: least, isExact: rowsNow === 0 } };
  }
  // To see if these are the same rows, their keys are read, which takes longer than to count them.
  const earlier = { snapshot: '', digest, count: delivered };
  const { now } = await source.lookAgain(request, earlier, null, signal);
  const isSame = now.count === delivered && now.digest === digest;
  const rows = Math.max(0, delivered - now.count);
  return { ...counted, rowsNow: now.count, wouldGo: { rows, isExact: isSame } };
}
