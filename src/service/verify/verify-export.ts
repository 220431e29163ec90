import { inSeconds } from '../../foundation/domain/time.ts';
import type { ExportTable } from '../../rows/pipeline/table-format.ts';
import { type Receipt, receiptsAfter } from '../../state/store/intervals/receipts.ts';
import {
  countMissingData,
  findGaps,
  findInconsistentRuns,
  findOverlaps,
  findTornTicks,
  hasLiveRuns,
} from '../../state/store/intervals/verify-queries.ts';
import { findStrays, type StrayPlace } from './find-strays.ts';
import { breachesOf, type Finding } from './finding.ts';
import { describeCounted, openReplay } from './replay.ts';
import { Sums, type Verified } from './sums.ts';
import { type ReceiptOptions, verifyReceipt } from './verify-receipt.ts';

export interface VerifyOptions extends ReceiptOptions {
  /** The export's table; null: it has none. */
  readonly table: ExportTable | null;
  /** Where strays are looked for; the present place is the first. */
  readonly strayPlaces: readonly StrayPlace[];
  readonly leftOut: readonly string[];
  /** After which ticks are deleted. */
  readonly retentionDays: number;
  readonly onInterval: () => void;
}

/** Reads our tables, the source and every current file. @param report called with each breach as it is found */
export async function verifyExport(
  options: VerifyOptions,
  report: (finding: Finding) => void,
): Promise<Verified> {
  const { sql, batchExport, keepsFiles, table } = options;
  for (const finding of await verifyTables(options)) report(finding);
  const sums = new Sums(options.leftOut);
  const opened = keepsFiles && batchExport.mode === 'changes' ? await openReplay(options) : null;
  if (typeof opened === 'string') sums.leaveOut(describeCounted(opened));
  const replay = typeof opened === 'string' ? null : opened;
  const tableFiles: Receipt['files'][number][] = [];
  try {
    await verifyReceipts({ ...options, replay }, sums, tableFiles, report);
    if (replay) {
      const answers = await replay.compare();
      answers.findings.forEach(report);
      sums.addAnswers(answers);
    }
  } finally {
    await replay?.close();
  }
  if (table) await lookAtTable(options, table, tableFiles, sums, report);
  if (keepsFiles) {
    for (const place of options.strayPlaces) {
      const breach = breachesOf(batchExport.id);
      sums.addStrays(await findStrays(sql, place, (detail) => report(breach('I4', detail))));
    }
  }
  return sums.sum(await countMissingData(sql, batchExport.id));
}

/** @param tableFiles gets the files that belong to the table of the export */
async function verifyReceipts(
  options: VerifyOptions,
  sums: Sums,
  tableFiles: Receipt['files'][number][],
  report: (finding: Finding) => void,
): Promise<void> {
  const { sql, batchExport, table } = options;
  for await (const receipt of receiptsAfter(sql, batchExport.id)) {
    const verified = await verifyReceipt(options, receipt, report);
    sums.add(verified);
    const isHere = verified.receipt?.destinationVersion === batchExport.destinationVersion;
    // The table of such an export has the newest interval alone.
    if (isHere && batchExport.mode === 'snapshot') tableFiles.length = 0;
    if (table && isHere) tableFiles.push(...(verified.receipt?.files ?? []));
    options.onInterval();
  }
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

/** Says whether other files are current than those that were read. */
async function hasMoreFiles(
  { sql, batchExport }: VerifyOptions,
  files: readonly Receipt['files'][number][],
): Promise<boolean> {
  const knownKeys = new Set(files.map(({ key }) => key));
  let count = 0;
  let hasMore = false;
  for await (const { files: current, destinationVersion } of receiptsAfter(sql, batchExport.id)) {
    if (destinationVersion !== batchExport.destinationVersion) continue;
    if (batchExport.mode === 'snapshot') [count, hasMore] = [0, false];
    hasMore ||= current.some(({ key }) => !knownKeys.has(key));
    count += current.length;
  }
  return hasMore || count !== knownKeys.size;
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
      breach(
        'I1',
        `${inSeconds(start)} to ${inSeconds(end)} is before the high-water mark and not completed`,
      ),
    ),
    ...(await findTornTicks(sql, id, retentionDays)).map(({ end, next }) =>
      breach(
        'I1',
        `an interval ends at ${inSeconds(end)} and the next begins at ${inSeconds(next)}`,
      ),
    ),
    ...(await findOverlaps(sql, id)).map(({ a, b }) =>
      breach(
        'I2',
        `the current intervals that begin at ${inSeconds(a)} and at ${inSeconds(b)} overlap`,
      ),
    ),
    ...(await findInconsistentRuns(sql, id)).map(({ id: run, why }) =>
      breach('I5', `run ${run}: ${why}`),
    ),
  ];
}
