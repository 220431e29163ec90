import type { DataInterval } from '../../foundation/domain/time.ts';
import type { Receipt } from '../../state/store/intervals/receipts.ts';
import { readReceiptNow } from '../../state/store/intervals/verify-queries.ts';
import type { Finding } from './finding.ts';
import { type IntervalAnswers, noAnswers, type VerifiedInterval } from './verified-interval.ts';
import { verifyInterval } from './verify-interval.ts';
import { verifyElement } from './verify-element.ts';
import { verifySnapshot } from './verify-snapshot.ts';
import { verifyTransformed } from './verify-transformed.ts';

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
