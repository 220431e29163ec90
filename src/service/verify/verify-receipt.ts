import { type DataInterval, describeInterval, inSeconds } from '../../foundation/domain/time.ts';
import type { Receipt } from '../../state/store/intervals/receipts.ts';
import { readReceiptNow } from '../../state/store/intervals/verify-queries.ts';
import { breachesOf, type Finding } from './finding.ts';
import { type IntervalAnswers, noAnswers, type VerifiedInterval } from './verified-interval.ts';
import { verifyInterval } from './verify-interval.ts';
import { verifyTransformed } from './verify-transformed.ts';
import { madeBy } from '../../rows/pipeline/read-back.ts';
import { findElementBefore } from '../../state/store/intervals/elements.ts';
import { verifyFiles } from './verify-files.ts';
import { isNewestSnapshot } from '../../state/store/intervals/kept-snapshots.ts';
import { requestOf } from './compare-rows.ts';

export interface ReceiptOptions extends VerifiedInterval {
  /** From the destination's definition: if it keeps no files, there is nothing to read. */
  readonly keepsFiles: boolean;
  /** The places that the export has left, by the version of its destination; those that can be read. */
  readonly formerPlaces: ReadonlyMap<number, Pick<VerifiedInterval, 'destination'>>;
}

/** An interval that was verified. */
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

/**
 * I4 and the order of I11 for an element: its files are whole, and it continues the element before it. The rows of all elements
 * are compared together (`replay.ts`).
 */
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

/**
 * I4 for a snapshot, and I3 as long as it can be known: the source has only its present rows. If none has changed since the
 * newest snapshot, they are compared with it. Otherwise the rows of the files are counted.
 *
 * @param verifyRows compares the files with the source
 */
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
  const findings = faults.map((detail) => breachesOf(exportId)('I4', detail));
  if (faults.length > 0) return { ...noAnswers, findings };
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
