import { madeBy } from '../../rows/pipeline/read-back.ts';
import { describeInterval, inSeconds } from '../../foundation/domain/time.ts';
import { isNewestSnapshot } from '../../state/store/intervals/kept-snapshots.ts';
import type { Receipt } from '../../state/store/intervals/receipts.ts';
import { requestOf } from './compare-rows.ts';
import { breachesOf } from './finding.ts';
import { type IntervalAnswers, noAnswers, type VerifiedInterval } from './verified-interval.ts';
import { verifyFiles } from './verify-files.ts';

/**
 * I4 for a snapshot, and I3 as long as it can be known: the source has only its present rows. If none has changed since the
 * newest snapshot, they are compared with it. Otherwise the rows of the files are counted.
 *
 * @param verifyRows compares the files with the source
 */
export async function verifySnapshot(
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
