import type { ExportTable } from '../../rows/pipeline/table-format.ts';
import { listReceipts, type Receipt } from '../../state/store/intervals/receipts.ts';
import {
  countMissingData,
  findGaps,
  findInconsistentRuns,
  findOverlaps,
  findTornTicks,
  hasLiveRuns,
  readReceiptNow,
} from '../../state/store/intervals/verify-queries.ts';
import { findStrays, type StrayPlace } from './find-strays.ts';
import { breachesOf, type Finding } from './finding.ts';
import { Sums, type Verified } from './sums.ts';
import { type ReceiptOptions, verifyReceipt } from './verify-receipt.ts';
import { describeInterval, toTimestamp } from '../../foundation/domain/time.ts';
import type { Destination } from '../../rows/destinations/destination.ts';
import { findLatest } from '../../rows/pipeline/latest-manifest.ts';

export interface VerifyOptions extends ReceiptOptions {
  /** The export's table; null: it has none. */
  readonly table: ExportTable | null;
  /** The key of the object that names the newest manifest; null: the export has none. */
  readonly latestKey: string | null;
  /** Where strays are looked for; the present place is the first. */
  readonly strayPlaces: readonly StrayPlace[];
  /** What cannot be looked at, as sentences. */
  readonly leftOut: readonly string[];
  /** After which ticks are deleted. */
  readonly retentionDays: number;
  /** Called after each interval. */
  readonly onInterval: () => void;
}

/** Receipts per read. */
const page = 100;

/**
 * Checks one export against its promises: our tables, the source and the bucket. Reads every current file.
 *
 * @param report called with each breach as it is found
 */
export async function verifyExport(
  options: VerifyOptions,
  report: (finding: Finding) => void,
): Promise<Verified> {
  const { sql, batchExport, keepsFiles, table } = options;
  for (const finding of await verifyTables(options)) report(finding);
  const sums = new Sums(options.leftOut);
  const tableFiles: Receipt['files'][number][] = [];
  let newest: Receipt | null = null;
  let after: Receipt['interval'] | null = null;
  for (;;) {
    const receipts: readonly Receipt[] = await listReceipts(sql, batchExport.id, after, page);
    for (const receipt of receipts) {
      const verified = await verifyReceipt(options, receipt, report);
      sums.add(verified);
      const isHere = verified.receipt?.destinationVersion === batchExport.destinationVersion;
      if (table && isHere) tableFiles.push(...(verified.receipt?.files ?? []));
      if (isHere) newest = laterBelow(options.latestKey, newest, verified.receipt);
      options.onInterval();
    }
    const last = receipts.at(-1);
    if (!last || receipts.length < page) break;
    after = last.interval;
  }
  if (table) await lookAtTable(options, table, tableFiles, sums, report);
  if (newest) await lookAtLatest(options, newest, sums, report);
  if (keepsFiles) {
    for (const place of options.strayPlaces) {
      const breach = breachesOf(batchExport.id);
      sums.addStrays(await findStrays(sql, place, (detail) => report(breach('I4', detail))));
    }
  }
  return sums.sum(await countMissingData(sql, batchExport.id));
}

/** The later one of two receipts whose manifests are in the folder of the object that names the newest one, or below it. */
function laterBelow(latestKey: string | null, known: Receipt | null, next: Receipt | null) {
  const folder = latestKey?.slice(0, latestKey.lastIndexOf('/') + 1);
  if (folder === undefined || !next?.manifestKey?.startsWith(folder)) return known;
  return known === null || isLater(next, known) ? next : known;
}

/** What would make it right: each run that ends names its interval, unless a later one is named. */
const latestRemedy =
  'Retry the run of the newest interval: at its end it writes this object again. If another program writes it, stop that.';

/** It is ahead of the receipts while a run ends. */
async function lookAtLatest(
  options: VerifyOptions,
  newest: Receipt,
  sums: Sums,
  report: (finding: Finding) => void,
): Promise<void> {
  const { sql, batchExport, destination, latestKey, signal } = options;
  if (latestKey === null) return;
  const wasLive = await hasLiveRuns(sql, batchExport.id);
  const fault = await verifyLatest(destination, latestKey, newest, signal);
  if (fault === null) return;
  // The setting may be newer than the last run.
  if (fault === 'missing') {
    return sums.leaveOut(`${latestKey} was not compared, because it is not there yet`);
  }
  const isWritten =
    wasLive || (await hasLiveRuns(sql, batchExport.id)) || (await hasLater(options, newest));
  if (isWritten) {
    return sums.leaveOut(`${latestKey} was not compared, because a run is writing to it`);
  }
  report(breachesOf(batchExport.id)('I4', fault, latestRemedy));
}

/** Whether an interval was committed meanwhile. */
async function hasLater({ sql, batchExport }: VerifyOptions, newest: Receipt): Promise<boolean> {
  const [next] = await listReceipts(sql, batchExport.id, newest.interval, 1);
  const { receipt } = await readReceiptNow(sql, batchExport.id, newest.interval);
  return next !== undefined || receipt?.manifestKey !== newest.manifestKey;
}

/** The table is ahead of the receipts while a run commits. */
async function lookAtTable(
  options: VerifyOptions,
  table: ExportTable,
  files: readonly Receipt['files'][number][],
  sums: Sums,
  report: (finding: Finding) => void,
): Promise<void> {
  const { sql, batchExport, destination } = options;
  const wasLive = await hasLiveRuns(sql, batchExport.id);
  const faults = await table.verify(destination, files);
  if (faults.length === 0) return;
  const isWritten =
    wasLive || (await hasLiveRuns(sql, batchExport.id)) || (await hasMoreFiles(options, files));
  if (isWritten) return sums.leaveOut('its table was not compared, because a run is writing to it');
  for (const fault of faults) report(breachesOf(batchExport.id)('I4', fault));
}

/** Whether other files are current than those that were read. */
async function hasMoreFiles(
  { sql, batchExport }: VerifyOptions,
  files: readonly Receipt['files'][number][],
): Promise<boolean> {
  const known = new Set(files.map(({ key }) => key));
  let after: Receipt['interval'] | null = null;
  let count = 0;
  for (;;) {
    const receipts: readonly Receipt[] = await listReceipts(sql, batchExport.id, after, page);
    for (const { files: current, destinationVersion } of receipts) {
      if (destinationVersion !== batchExport.destinationVersion) continue;
      if (current.some(({ key }) => !known.has(key))) return true;
      count += current.length;
    }
    after = receipts.at(-1)?.interval ?? null;
    if (after === null || receipts.length < page) return count !== known.size;
  }
}

async function verifyTables({
  sql,
  batchExport,
  retentionDays,
}: VerifyOptions): Promise<readonly Finding[]> {
  const breach = breachesOf(batchExport.id);
  const { id } = batchExport;
  return [
    ...(await findGaps(sql, id)).map(({ start, end }) =>
      breach('I1', `${start} to ${end} is before the high-water mark and not completed`),
    ),
    ...(await findTornTicks(sql, id, retentionDays)).map(({ end, next }) =>
      breach('I1', `an interval ends at ${end} and the next begins at ${next}`),
    ),
    ...(await findOverlaps(sql, id)).map(({ a, b }) =>
      breach('I2', `the current intervals that begin at ${a} and at ${b} overlap`),
    ),
    ...(await findInconsistentRuns(sql, id)).map(({ id: run, why }) =>
      breach('I5', `run ${run}: ${why}`),
    ),
  ];
}

/** What is wrong with the object that names the newest manifest; `missing` if there is none. */
async function verifyLatest(
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
function isLater({ interval: a }: Receipt, { interval: b }: Receipt): boolean {
  return a.end === b.end ? a.start > b.start : a.end > b.end;
}
