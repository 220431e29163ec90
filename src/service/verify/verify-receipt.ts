import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeError } from '../../foundation/domain/describe-error.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import type { Recipe } from '../../foundation/domain/recipe.ts';
import { type DataInterval, describeInterval, inSeconds } from '../../foundation/domain/time.ts';
import { KeyDifference, type KeySink, KeyTally } from '../../rows/pipeline/key-tally.ts';
import { ColumnsAbsent, joinKeys, keyOfRow } from '../../rows/pipeline/row-keys.ts';
import { madeBy } from '../../rows/pipeline/read-back.ts';
import type { RenderedInterval } from '../../rows/pipeline/render-interval.ts';
import type { SourceRequest } from '../../rows/sources/source.ts';
import { findElementBefore } from '../../state/store/intervals/elements.ts';
import { isNewestSnapshot } from '../../state/store/intervals/kept-snapshots.ts';
import type { Receipt } from '../../state/store/intervals/receipts.ts';
import { readReceiptNow } from '../../state/store/intervals/verify-queries.ts';
import {
  type ComparedRows,
  compareRows,
  groupsOf,
  requestOf,
  type RowAnswers,
} from './compare-rows.ts';
import { breachesOf, counted, type Finding } from './finding.ts';
import { type IntervalAnswers, noAnswers, type VerifiedInterval } from './verified-interval.ts';
import { verifyFiles } from './verify-files.ts';
import { answersOf, faultsOf, verifyInterval } from './verify-interval.ts';

export interface ReceiptOptions extends VerifiedInterval {
  /** From the destination's definition: if it keeps no files, there is nothing to read. */
  readonly keepsFiles: boolean;
  /** The places that the export has left, by the version of its destination; those that can be read. */
  readonly formerPlaces: ReadonlyMap<number, Pick<VerifiedInterval, 'destination'>>;
}

export interface VerifiedReceipt {
  readonly interval: DataInterval;
  /** Null: the interval has none any more. */
  readonly receipt: Receipt | null;
  readonly answers: IntervalAnswers;
  /** False: its files are where they cannot be read. */
  readonly isRead: boolean;
  /** Why it was left out; null if it was not. */
  readonly leftOut: string | null;
}

/** A run may replace the files while they are read: then the new ones are read. */
const maxTries = 3;

/** Verifies an interval. What is found counts only if the receipt is still the same after it. */
export async function verifyReceipt(
  options: ReceiptOptions,
  given: Receipt,
  report: (finding: Finding) => void,
): Promise<VerifiedReceipt> {
  const { sql } = options;
  const { interval } = given;
  const read = (receipt: Receipt, answers: IntervalAnswers, leftOut: string | null) => {
    return { interval, receipt, answers, isRead: true, leftOut };
  };
  let receipt = given;
  for (let tries = 1; tries <= maxTries; tries += 1) {
    const here = readingOf(options, receipt);
    if (here === null) {
      return { interval, receipt, answers: noAnswers, isRead: false, leftOut: null };
    }
    const answers = options.keepsFiles ? await verifyOne(here, receipt) : noAnswers;
    if (answers.findings.length === 0) return read(receipt, answers, null);
    const now = await readReceiptNow(sql, receipt.exportId, receipt.interval);
    if (now.receipt === null) break;
    if (isSame(now.receipt, receipt)) {
      const isExcused = now.isLive && answers.findings.every((one) => mayBeWritten(one, receipt));
      if (isExcused) return read(receipt, noAnswers, 'is being written');
      for (const finding of answers.findings) report(finding);
      return read(receipt, answers, null);
    }
    receipt = now.receipt;
  }
  const leftOut = 'was replaced while it was read,';
  return { interval, receipt: null, answers: noAnswers, isRead: false, leftOut };
}

/** Null: its files are where they cannot be read. */
function readingOf(options: ReceiptOptions, receipt: Receipt): VerifiedInterval | null {
  const { batchExport, formerPlaces } = options;
  if (receipt.destinationVersion === batchExport.destinationVersion) return options;
  const former = formerPlaces.get(receipt.destinationVersion);
  return former ? { ...options, ...former } : null;
}

function verifyOne(interval: VerifiedInterval, receipt: Receipt): Promise<IntervalAnswers> {
  if (receipt.element) return verifyElement(interval, receipt);
  const rows = () => verifyRows(interval, receipt);
  return interval.batchExport.mode === 'append' ? rows() : verifySnapshot(interval, receipt, rows);
}

function verifyRows(interval: VerifiedInterval, receipt: Receipt): Promise<IntervalAnswers> {
  return receipt.recipe.chain
    ? verifyTransformed(interval, receipt, receipt.recipe)
    : verifyInterval(interval, receipt);
}

const isSame = (a: Receipt, b: Receipt): boolean =>
  a.runId === b.runId &&
  a.generation === b.generation &&
  a.destinationVersion === b.destinationVersion &&
  a.manifestEtag === b.manifestEtag &&
  JSON.stringify(a.files) === JSON.stringify(b.files);

/** Says whether a live run explains a finding: it puts the manifest before it records it, or replaces files in place. */
function mayBeWritten({ invariant, detail }: Finding, { manifestKey }: Receipt): boolean {
  return invariant === 'I4' && (manifestKey === null || detail.startsWith(manifestKey));
}

/** I4, and the order of I11: it continues the element before. The rows of all are compared together (`replay.ts`). */
async function verifyElement(
  interval: VerifiedInterval,
  receipt: Receipt,
): Promise<IntervalAnswers> {
  const { exportId, element } = receipt;
  if (!element) throw new Error('the receipt has no element');
  const breach = breachesOf(exportId);
  const { replay = null } = interval;
  const faults = replay?.takes(receipt)
    ? await replay.read(interval, receipt)
    : await verifyFiles(interval, receipt, madeBy(receipt.recipe), [], () => {});
  const findings = faults.map((detail) => breach('I4', detail));
  const before = await findElementBefore(interval.sql, exportId, receipt.interval);
  const { number, follows } = element;
  if (before !== null && before.number >= number) {
    findings.push(breach('I11', `element ${number} comes after element ${before.number}`));
  }
  if (follows !== null && before?.number !== follows) {
    const actual = before === null ? 'there is none' : `that is element ${before.number}`;
    findings.push(
      breach('I11', `element ${number} continues element ${follows}, but before it ${actual}`),
    );
  }
  return { ...noAnswers, findings };
}

/** I4 for a snapshot. If its source has not changed since the newest one, the rows are compared (I3); otherwise they are counted. */
async function verifySnapshot(
  interval: VerifiedInterval,
  receipt: Receipt,
  verifyRows: () => Promise<IntervalAnswers>,
): Promise<IntervalAnswers> {
  const { sql } = interval;
  const { exportId, snapshotAt = null } = receipt;
  const isNewest = snapshotAt !== null && (await isNewestSnapshot(sql, exportId, receipt.interval));
  if (isNewest && !(await hasChanged(interval, receipt))) {
    const answers = await verifyRows();
    // A source that has changed meanwhile proves nothing.
    if (answers.findings.length === 0 || !(await hasChanged(interval, receipt))) return answers;
  }
  const faults = await verifyFiles(interval, receipt, madeBy(receipt.recipe), [], () => {});
  if (faults.length > 0) return faultsOf(receipt, faults);
  if (snapshotAt === null) return { ...noAnswers, isExpired: true };
  const why = isNewest
    ? 'the source has changed since, or does not show whether it has'
    : 'there is a newer snapshot';
  const range = describeInterval(receipt.interval);
  const taken = inSeconds(snapshotAt);
  return {
    ...noAnswers,
    unproven: `${range}: the rows of its snapshot of ${taken} were only counted, because ${why}`,
  };
}

/** True if a row of the source was written, or is gone, since the snapshot, or if that cannot be known. */
function hasChanged(interval: VerifiedInterval, receipt: Receipt): Promise<boolean> {
  const { source, signal } = interval;
  const { snapshot, count } = receipt.proof;
  return source.hasChanged(requestOf(interval, receipt), { snapshot, digest: null, count }, signal);
}

/** I4. If the source has not changed since the newest snapshot, the rows are compared (I3); otherwise they are counted. */
async function verifyTransformed(
  interval: VerifiedInterval,
  receipt: Receipt,
  recipe: Recipe,
): Promise<IntervalAnswers> {
  const makers = madeBy(recipe);
  const faults = await verifyFiles(interval, receipt, makers, [], () => {});
  if (faults.length > 0) return faultsOf(receipt, faults);
  const request = requestOf(interval, receipt);
  const folder = await mkdtemp(join(tmpdir(), 'sluice-verify-'));
  try {
    const { renderAgain, signal } = interval;
    const again = await renderAgain(receipt, recipe, request, folder, signal);
    // A supplement has rejected rows in a file of its own.
    const isSameRejected =
      receipt.rejectedFiles.length > 1
        ? rowsOf(again.rejectedFiles) === rowsOf(receipt.rejectedFiles)
        : haveSameBytes(again.rejectedFiles, receipt.rejectedFiles);
    if (isSameRejected && haveSameBytes(again.files, receipt.files)) return noAnswers;
    const rows = await differRows(interval, receipt, again, folder);
    if (isSameRejected && rows.lost === 0 && rows.foreign === 0) return noAnswers;
    return await judge(interval, receipt, request, again, rows);
  } catch (error) {
    const isGone = error instanceof SluiceError && error.code === 'transformation.invalid';
    if (!isGone && !(error instanceof ColumnsAbsent)) throw error;
    const compared = await compareRows(interval, request, receipt);
    if ('faults' in compared) return faultsOf(receipt, compared.faults);
    return withUnproven(receipt, compared, isGone ? describeError(error) : error.message);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The difference between the files and what the chain makes of the source now. */
interface RowDifference {
  /** Rows that the chain makes and that no file has. */
  readonly lost: number;
  readonly foreign: number;
}

async function judge(
  interval: VerifiedInterval,
  receipt: Receipt,
  request: SourceRequest,
  again: RenderedInterval,
  { lost, foreign }: RowDifference,
): Promise<IntervalAnswers> {
  const { source, signal } = interval;
  const compared = await compareRows(interval, request, receipt);
  if ('faults' in compared) return faultsOf(receipt, compared.faults);
  const { rows, commit } = compared;
  // The count is that of now: rows that are gone say nothing about those that stay.
  const earlier =
    commit.snapshot === null
      ? null
      : { snapshot: commit.snapshot, digest: null, count: again.totalRows };
  if (!earlier || (await source.hasChanged(request, earlier, signal))) {
    const changed = `${counted(lost, 'row')} of the chain's output ${lost === 1 ? 'is' : 'are'} not in the files`;
    const why = `rows of the source have changed since, or do not show whether they have (${changed})`;
    return withUnproven(receipt, compared, why);
  }
  const { gone, moved, goneOrMoved, onlyCounted } = rows;
  const missing = onlyCounted
    ? commit.rowsRead - again.totalRows
    : gone.count + moved.count + goneOrMoved;
  const isLess = rowsOf(again.rejectedFiles) <= rowsOf(receipt.rejectedFiles);
  if (lost === 0 && foreign <= missing && isLess)
    return answersOf(receipt, withoutDropped(rows), commit);
  const detail = describeDifference(receipt, again);
  return { ...noAnswers, findings: [breachesOf(receipt.exportId)('I3', detail)] };
}

/** Only what the keys prove. */
function withUnproven(
  receipt: Receipt,
  { rows, commit }: ComparedRows,
  why: string,
): IntervalAnswers {
  const unproven = `${describeInterval(receipt.interval)}: not provable, because ${why}`;
  return { ...answersOf(receipt, withoutDropped(rows), commit), unproven };
}

/** A row that is in no file may be one that the chain drops. Counts alone say nothing. */
function withoutDropped(rows: RowAnswers): RowAnswers {
  const none = { count: 0, keys: [] };
  return { ...rows, missing: none, ...(rows.onlyCounted ? { gone: none } : {}) };
}

async function differRows(
  interval: VerifiedInterval,
  receipt: Receipt,
  again: RenderedInterval,
  folder: string,
): Promise<RowDifference> {
  const { columns } = again;
  const encoding = madeBy(receipt.recipe);
  const readBoth = async (sink: KeySink) => {
    const files = { ...receipt, rejectedFiles: [] };
    await verifyFiles(interval, files, encoding, columns, (row) => sink.add(row, -1));
    for (const { key } of again.files) {
      for await (const row of interval.readRows(join(folder, key), encoding, columns)) {
        sink.add(keyOfRow(row, columns), 1);
      }
    }
  };
  const tally = new KeyTally();
  await readBoth(tally);
  const sums = { lost: 0, foreign: 0 };
  for (const group of groupsOf(tally.differing(), receipt.rows + rowsOf(again.files))) {
    const difference = new KeyDifference(group);
    await readBoth(difference);
    const { lost, doubled, shared, foreign } = difference.read();
    sums.lost += lost.length;
    sums.foreign += doubled.length + shared.length + foreign.length;
  }
  return sums;
}

function describeDifference(receipt: Receipt, again: RenderedInterval): string {
  const { files, rejectedFiles, droppedRows, totalRows } = again;
  return (
    `${describeInterval(receipt.interval)}: the files are not what the transformation chain makes of the source. They have ` +
    `${rowsOf(receipt.files)} rows and ${rowsOf(receipt.rejectedFiles)} rejected ones. Of ${totalRows} rows the chain keeps ` +
    `${rowsOf(files)}, drops ${droppedRows} and rejects ${rowsOf(rejectedFiles)}.`
  );
}

type File = Pick<Receipt['files'][number], 'rows' | 'sha256'>;

const rowsOf = (files: readonly { readonly rows: number }[]) =>
  files.reduce((sum, file) => sum + file.rows, 0);

function haveSameBytes(a: readonly File[], b: readonly File[]): boolean {
  const text = (files: readonly File[]) =>
    joinKeys(files.map(({ rows, sha256 }) => `${rows} ${sha256}`));
  return a.length === b.length && text(a) === text(b);
}
