import type { VerifyResult } from '../../foundation/domain/verification.ts';
import { counted, invariantTitles, remedies } from './finding.ts';
import type { Verified } from './sums.ts';
import type { RowSums } from './verified-interval.ts';
import type { VerifiedExportReport } from './verify-exports.ts';

export function resultOf(found: VerifiedExportReport): VerifyResult {
  const { failure, breaches, missing, intervals, elsewhere } = found;
  if (failure !== null) return 'unread';
  if (breaches > 0) return 'broken';
  if (missing.failed + missing.retrying > 0) return 'incomplete';
  return intervals + elsewhere === 0 ? 'nothing_yet' : 'proven';
}

export const printedBreaches = 20;

/** The result of an export, the gaps of the proof, and the remedy; then a line for each breach. */
export function describeResult(found: VerifiedExportReport, result: VerifyResult): string[] {
  const { id, findings, breaches, failure } = found;
  const lines = findings
    .slice(0, printedBreaches)
    .map(({ invariant, detail }) => `  ${invariant} (${invariantTitles[invariant]}): ${detail}`);
  if (breaches > lines.length) {
    lines.push(`  and ${breaches - lines.length} more: --export ${id} --json has more of them`);
  }
  if (failure !== null) return [failure, ...lines];
  const [first] = findings;
  const size = result === 'nothing_yet' ? 'no interval has been exported' : sizeOf(found);
  const facts = [size, ...sourceFacts(found), ...leftOutOf(found)].join('; ');
  if (first) {
    const count = counted(breaches, 'breach', 'breaches');
    return [`${count}. ${first.remedy ?? remedies[first.invariant]}`, ...lines];
  }
  return [result === 'incomplete' ? `${describeMissing(found)} ${facts}` : facts];
}

function describeMissing({ missing, intervals, elsewhere }: Verified): string {
  const { failed, retrying, running } = missing;
  const requested = intervals + elsewhere + failed + retrying + running;
  const lacking = failed + retrying;
  const have = lacking === 1 ? 'has' : 'have';
  const retried =
    retrying === 0 ? '' : `, ${retrying} of them ${retrying === 1 ? 'is' : 'are'} retried`;
  return `${lacking} of ${counted(requested, 'requested interval')} ${have} no data${retried}. Its log says why. What heals runs by itself; retry the others.`;
}

/** Rows that the source has lost, moved or gained since. No promise is broken by them. */
export function sourceFacts({ gone, moved, goneOrMoved, late, pending }: RowSums): string[] {
  return [
    ...(gone > 0 ? [`${counted(gone, 'row')} gone from the source`] : []),
    ...(moved > 0 ? [`${counted(moved, 'row')} moved to another interval`] : []),
    ...(goneOrMoved > 0 ? [`${counted(goneOrMoved, 'row')} gone from the source, or moved`] : []),
    ...(late > 0 ? [`${counted(late, 'row')} came late; the next look-back adds them`] : []),
    ...(pending > 0 ? [`${counted(pending, 'row')} changed since; the next element has them`] : []),
  ];
}

function leftOutOf({ leftOut, unproven, leftovers, missing }: Verified): string[] {
  const [first] = unproven;
  return [
    ...leftOut,
    ...(first === undefined ? [] : [first]),
    ...(unproven.length > 1 ? [`and ${unproven.length - 1} more such intervals`] : []),
    ...(leftovers > 0
      ? [
          `${counted(leftovers, 'file')} of uncommitted generations: Sluice removes them after a later commit`,
        ]
      : []),
    ...(missing.running > 0
      ? [`${counted(missing.running, 'requested interval')} not exported yet`]
      : []),
  ];
}

export function sizeOf({
  intervals,
  files,
  rows,
  bytes,
}: Pick<Verified, 'intervals' | 'files' | 'rows' | 'bytes'>): string {
  const parts = [counted(intervals, 'interval'), counted(files, 'file')];
  return [...parts, counted(rows, 'row'), counted(bytes, 'byte')].join(', ');
}
