/** The rows of the intervals, and what a real source does to them. */

import type { SecondLook, Source } from '../../src/rows/sources/source.ts';

export type SourceChange = 'late' | 'prune' | 'empty' | 'update' | 'restart';

/** The rows of an interval, by number. */
export type Rows = readonly number[];

interface IntervalRows {
  readonly rows: Rows;
  /** Of the row that comes next: a number is never used again. */
  readonly next: number;
  /** The version of the source at the last write. */
  readonly written: number;
}

export interface SimSource {
  /** Rises with each change. */
  version: number;
  starts: number;
  readonly intervals: Map<string, IntervalRows>;
}

export const createSource = (): SimSource => ({ version: 1, starts: 1, intervals: new Map() });

/** Each interval has a row at first. */
const intervalOf = ({ intervals }: SimSource, key: string): IntervalRows =>
  intervals.get(key) ?? { rows: [1], next: 2, written: 1 };

export const rowsOf = (source: SimSource, key: string): Rows => intervalOf(source, key).rows;

/** As a look at the source keeps it. */
export function proofOf(source: SimSource, key: string) {
  const rows = rowsOf(source, key);
  const snapshot = `${source.version}:${source.version}:@${source.starts}`;
  return { snapshot, keyDigest: rows.join(), keyCount: rows.length };
}

export function changeSource(source: SimSource, change: SourceChange, key: string): void {
  source.version += 1;
  if (change === 'restart') {
    source.starts += 1;
    return;
  }
  const { rows, next, written } = intervalOf(source, key);
  const now = { rows, next, written: source.version };
  const changed: Record<typeof change, IntervalRows> = {
    late: { ...now, rows: [...rows, next], next: next + 1 },
    prune: { rows: rows.slice(1), next, written },
    empty: { rows: [], next, written },
    update: now,
  };
  source.intervals.set(key, changed[change]);
}

/** What the source answers to look-backs, by the rules of `rows/sources/postgres/late-rows.ts`. */
export function lookingAt(
  source: SimSource,
  keyOf: (request: Parameters<Source['lookAgain']>[0]) => string,
): Pick<Source, 'lookAgain'> {
  return {
    async lookAgain(request, earlier): Promise<SecondLook> {
      const key = keyOf(request);
      const { snapshot, keyDigest: digest, keyCount: count } = proofOf(source, key);
      const now = { snapshot, digest, count };
      if (digest === earlier.digest && count === earlier.count) {
        return { now, mayHaveLateRows: false };
      }
      const [xmin = '', start] = earlier.snapshot.split(/:.*@/);
      const isCertain =
        start === String(source.starts) &&
        count <= earlier.count &&
        intervalOf(source, key).written <= Number(xmin);
      return { now, mayHaveLateRows: !isCertain };
    },
  };
}
