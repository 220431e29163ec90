import { describeInterval } from '../../foundation/domain/time.ts';
import { madeBy } from '../../rows/pipeline/read-back.ts';
import { findElementBefore } from '../../state/store/intervals/elements.ts';
import type { Receipt } from '../../state/store/intervals/receipts.ts';
import { breachesOf } from './finding.ts';
import { type IntervalAnswers, noAnswers, type VerifiedInterval } from './verified-interval.ts';
import { verifyFiles } from './verify-files.ts';

/**
 * I4 and the order of I11 for an element: its files are whole, and it continues the element before it. The source no longer
 * has the rows of its snapshot, so they are counted.
 */
export async function verifyElement(
  interval: VerifiedInterval,
  receipt: Receipt,
): Promise<IntervalAnswers> {
  const { exportId, element } = receipt;
  if (!element) throw new Error('the receipt has no element');
  const breach = breachesOf(exportId);
  const faults = await verifyFiles(interval, receipt, madeBy(receipt.recipe), [], () => {});
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
  const counted = { ...noAnswers, findings, onlyCounted: true };
  if (findings.length > 0) return counted;
  const unproven = `${describeInterval(receipt.interval)}: the rows of element ${number} were only counted, because the source no longer has its snapshot`;
  return { ...counted, unproven };
}
