import { describeInterval } from '../../foundation/domain/time.ts';
import type { MissingData } from '../../state/store/intervals/verify-queries.ts';
import type { Strays } from './find-strays.ts';
import { counted } from './finding.ts';
import { type IntervalAnswers, noSums, type RowSums, rowSums } from './verified-interval.ts';
import type { VerifiedReceipt } from './verify-receipt.ts';

export interface Verified extends RowSums {
  readonly intervals: number;
  readonly files: number;
  readonly rows: number;
  readonly bytes: number;
  /** Current intervals at a place that the export has left and that cannot be read. */
  readonly elsewhere: number;
  /** Files of uncommitted generations that are still there. */
  readonly leftovers: number;
  /** Intervals whose rows cannot be compared with the source any more, each with the reason. */
  readonly unproven: readonly string[];
  /** Which rows the source no longer has in their interval, or has since the interval was read. */
  readonly remarks: readonly string[];
  readonly leftOut: readonly string[];
  /** Requested intervals without a receipt. */
  readonly missing: MissingData;
}

export const nothingVerified: Verified = {
  ...noSums,
  intervals: 0,
  files: 0,
  rows: 0,
  bytes: 0,
  elsewhere: 0,
  leftovers: 0,
  unproven: [],
  remarks: [],
  leftOut: [],
  missing: { failed: 0, retrying: 0, running: 0 },
};

const keptTexts = 100;

export class Sums {
  readonly #sums = { ...nothingVerified } as { -readonly [Name in keyof Verified]: Verified[Name] };
  readonly #unproven: string[] = [];
  readonly #remarks: string[] = [];
  readonly #leftOut: string[];
  readonly #skipped = new Map<string, { count: number; readonly first: string }>();
  #onlyCounted = 0;
  #expired = 0;
  #beingWritten = 0;

  constructor(leftOut: readonly string[]) {
    this.#leftOut = [...leftOut];
  }

  leaveOut(text: string): void {
    if (this.#leftOut.length < keptTexts && !this.#leftOut.includes(text)) this.#leftOut.push(text);
  }

  add({ interval, receipt, answers, isRead, leftOut }: VerifiedReceipt): void {
    const sums = this.#sums;
    if (leftOut !== null) {
      const first = describeInterval(interval);
      const skipped = this.#skipped.get(leftOut) ?? { count: 0, first };
      this.#skipped.set(leftOut, { ...skipped, count: skipped.count + 1 });
    }
    if (!isRead) {
      if (leftOut === null) sums.elsewhere += 1;
      return;
    }
    sums.intervals += 1;
    sums.files += receipt?.files.length ?? 0;
    sums.rows += receipt?.rows ?? 0;
    sums.bytes += receipt?.bytes ?? 0;
    this.addAnswers(answers);
    if (answers.onlyCounted) this.#onlyCounted += 1;
    if (answers.isExpired) this.#expired += 1;
  }

  addAnswers(answers: IntervalAnswers): void {
    for (const name of rowSums) this.#sums[name] += answers[name];
    keep(this.#remarks, answers.remarks);
    keep(this.#unproven, answers.unproven === null ? [] : [answers.unproven]);
  }

  addStrays({ leftovers, beingWritten, leftOut }: Strays): void {
    this.#sums.leftovers += leftovers;
    this.#beingWritten += beingWritten;
    for (const text of leftOut) this.leaveOut(text);
  }

  sum(missing: MissingData): Verified {
    const { elsewhere } = this.#sums;
    if (elsewhere > 0) {
      this.leaveOut(`${counted(elsewhere, 'interval')} at a former destination: not read`);
    }
    for (const [why, { count, first }] of this.#skipped) {
      this.leaveOut(`${counted(count, 'interval')} left out: ${first} ${why} by a run`);
    }
    if (this.#beingWritten > 0) {
      this.leaveOut(`${counted(this.#beingWritten, 'object')} of intervals that a run is writing`);
    }
    if (this.#onlyCounted > 0) {
      const intervals = counted(this.#onlyCounted, 'interval');
      this.leaveOut(`the rows of ${intervals} were only counted: the files do not have the keys`);
    }
    if (this.#expired > 0) {
      this.leaveOut(`${counted(this.#expired, 'snapshot')} removed by keep_snapshots`);
    }
    return {
      ...this.#sums,
      unproven: this.#unproven,
      remarks: this.#remarks,
      leftOut: this.#leftOut,
      missing,
    };
  }
}

function keep(texts: string[], more: readonly string[]): void {
  texts.push(...more.slice(0, keptTexts - texts.length));
}
