import { describeInterval, toTimestamp } from '../../foundation/domain/time.ts';
import type { Destination } from '../../rows/destinations/destination.ts';
import { findLatest } from '../../rows/pipeline/latest-manifest.ts';
import type { Receipt } from '../../state/store/intervals/receipts.ts';

/** What is wrong with the object that names the newest manifest; `missing` if there is none. */
export async function verifyLatest(
  destination: Destination,
  key: string,
  newest: Receipt,
  signal: AbortSignal,
): Promise<string | 'missing' | null> {
  const latest = await findLatest(destination, key, newest.exportId, signal);
  if (latest === null) return 'missing';
  if (latest === 'other') return `${key} is not one of this export`;
  const end = toTimestamp(newest.interval.end);
  const { manifest, data_interval_start: start, data_interval_end: named } = latest;
  if (manifest === newest.manifestKey && named === end) return null;
  const isNewer = named > end || (named === end && start > toTimestamp(newest.interval.start));
  const why = isNewer
    ? 'an interval that this database does not know'
    : `the newest manifest is ${newest.manifestKey} of ${describeInterval(newest.interval)}`;
  return `${key} names ${manifest} of the interval that ends at ${named}: ${why}`;
}

/** The later interval; of two that end together, the one that starts later. */
export function isLater({ interval: a }: Receipt, { interval: b }: Receipt): boolean {
  return a.end === b.end ? a.start > b.start : a.end > b.end;
}
