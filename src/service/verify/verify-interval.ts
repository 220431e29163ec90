import { describeInterval, inSeconds, toTimestamp } from '../../foundation/domain/time.ts';
import type { Receipt } from '../../state/store/intervals/receipts.ts';
import type { CommitFacts } from '../../state/store/files/known-commits.ts';
import { compareRows, requestOf, type RowAnswers, type Rows } from './compare-rows.ts';
import { breachesOf, counted, type Finding } from './finding.ts';
import { type IntervalAnswers, noAnswers, type VerifiedInterval } from './verified-interval.ts';

/** I4 and I3: the files of an interval are as its receipt says, and have each row of the source exactly once. */
export async function verifyInterval(
  interval: VerifiedInterval,
  receipt: Receipt,
): Promise<IntervalAnswers> {
  const compared = await compareRows(interval, requestOf(interval, receipt), receipt);
  if ('faults' in compared) return faultsOf(receipt, compared.faults);
  return answersOf(receipt, compared.rows, compared.commit);
}

export function faultsOf({ exportId }: Receipt, faults: readonly string[]): IntervalAnswers {
  const breach = breachesOf(exportId);
  return { ...noAnswers, findings: faults.map((detail) => breach('I4', detail)) };
}

export function answersOf(
  receipt: Receipt,
  rows: RowAnswers,
  commit: CommitFacts,
): IntervalAnswers {
  const { missing, doubled, undecided, gone, moved, goneOrMoved, onlyCounted } = rows;
  const range = describeInterval(receipt.interval);
  const say = ({ count, keys }: Rows, what: string) =>
    `${range}: ${counted(count, 'row')} ${what}${keys.length > 0 ? `: ${list(count, keys)}` : ''}`;
  const findings: Finding[] = [];
  const remarks: string[] = [];
  if (doubled.count > 0) {
    findings.push(breachesOf(receipt.exportId)('I3', say(doubled, 'doubled')));
  }
  let late = 0;
  let unproven: string | null = null;
  if (missing.count > 0) {
    const isLate = doubled.count === 0 && (commit.isWhole || commit.isChanged);
    if (isLate && commit.isAccepted) {
      unproven = say(missing, 'missing from the files: a person has accepted that');
    } else if (isLate && commit.isLookedAt && commit.waitsFor === null) {
      late = missing.count;
      remarks.push(say(missing, 'came after it was read; the next look-back adds them'));
    } else {
      findings.push(describeMissing(receipt, isLate ? commit : null, (what) => say(missing, what)));
    }
  }
  if (undecided.count > 0) {
    const what =
      'more often in the files than in the source, and whether they are doubled is not provable without the late rows';
    unproven = [unproven, say(undecided, what)].filter((text) => text !== null).join('; ');
  }
  if (gone.count > 0) remarks.push(say(gone, 'gone from the source'));
  if (moved.count > 0) remarks.push(say(moved, 'moved to another interval'));
  if (goneOrMoved > 0) {
    remarks.push(say({ count: goneOrMoved, keys: [] }, 'gone from the source, or moved'));
  }
  const sums = { late, gone: gone.count, moved: moved.count, goneOrMoved, pending: 0 };
  return { ...noAnswers, ...sums, findings, remarks, unproven, onlyCounted };
}

/** @param late the commit after which they came; null: it should have delivered them */
function describeMissing(
  { exportId, interval }: Receipt,
  late: CommitFacts | null,
  say: (what: string) => string,
): Finding {
  const breach = breachesOf(exportId);
  const missing = 'missing from the files';
  const [from, to] = [interval.start, interval.end].map((at) => inSeconds(toTimestamp(at)));
  if (late === null) return breach('I3', say(missing));
  if (late.waitsFor !== null) {
    const text = say(
      `${missing}, because they came after the interval was read and cannot be added`,
    );
    return breach('I3', `${text} (${late.waitsFor})`, 'Its log says what late rows wait for.');
  }
  return breach(
    'I3',
    say(`${missing}, because they came after the interval was read and no look-back is due`),
    `Run \`sluice backfill ${exportId} --from ${from} --to ${to}\`: it makes the files anew. With look_back_hours of the export, Sluice adds late rows by itself from then on.`,
  );
}

function list(count: number, keys: readonly string[]): string {
  return keys.join(', ') + (count > keys.length ? ' …' : '');
}
