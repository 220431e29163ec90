import {
  bucketCount,
  bucketsToName,
  KeyDifference,
  type KeySink,
  type KeysThatDiffer,
  KeyTally,
} from '../../rows/pipeline/key-tally.ts';
import { ColumnsAbsent, showKeys } from '../../rows/pipeline/row-keys.ts';
import { madeBy } from '../../rows/pipeline/read-back.ts';
import type { SourceRequest } from '../../rows/sources/source.ts';
import type { Receipt } from '../../state/store/intervals/receipts.ts';
import { type CommitFacts, findCommit } from '../../state/store/files/known-commits.ts';
import { readSourceKeys, type SourceRows } from './source-keys.ts';
import type { VerifiedInterval } from './verified-interval.ts';
import { verifyFiles } from './verify-files.ts';

const maxNamed = 5;

/** Maximum keys in memory; if more differ, the rows are read several times. */
const heldKeys = 500_000;

const maxLookedUp = 2_000;

/** Rows with the same answer, and the keys of the first. */
export interface Rows {
  readonly count: number;
  readonly keys: readonly string[];
}

export const noRows: Rows = { count: 0, keys: [] };

/** The difference between the rows of an interval's files and those of the source. */
export interface RowAnswers {
  readonly missing: Rows;
  /** In the files more often than they were in the source. */
  readonly doubled: Rows;
  /** In the files more often than in the source now: rows of a view with a shared key may be gone, or doubled. */
  readonly undecided: Rows;
  /** In the files and no longer in the source, or no longer selected by the export's query. */
  readonly gone: Rows;
  /** In the files; in the source they are in another interval now. */
  readonly moved: Rows;
  /** Gone or moved: these were too many to look up each in the source. */
  readonly goneOrMoved: number;
  /** The files do not have the keys, so the rows were only counted. */
  readonly onlyCounted: boolean;
}

/** The answers, or what is wrong with the files: then nothing is compared. */
export type Compared = { readonly faults: readonly string[] } | ComparedRows;

export interface ComparedRows {
  readonly rows: RowAnswers;
  readonly commit: CommitFacts;
}

/** Compares rows by their keys, in constant memory. Rows of a view may share a key. If rows differ, everything is read again. */
export async function compareRows(
  interval: VerifiedInterval,
  request: SourceRequest,
  receipt: Receipt,
): Promise<Compared> {
  const tally = new KeyTally();
  const first = new FirstKeys(tally);
  const { source, faults } = await readBoth(interval, request, receipt, first);
  if (faults.length > 0) return { faults };
  const { sql, lookBackHours } = interval;
  const commit = await findCommit(sql, receipt.exportId, receipt.interval, lookBackHours);
  const delivered = deliveredRows(receipt);
  const nothing = {
    missing: noRows,
    doubled: noRows,
    undecided: noRows,
    gone: noRows,
    moved: noRows,
  };
  if (source.columns.length === 0) {
    const less = { count: delivered - source.rows, keys: [] };
    const more = { count: source.rows - delivered, keys: [] };
    const changed = less.count > 0 ? { gone: less } : more.count > 0 ? { missing: more } : {};
    return { rows: { ...nothing, ...changed, goneOrMoved: 0, onlyCounted: true }, commit };
  }
  const differing = tally.differing();
  if (differing.length === 0) {
    return { rows: { ...nothing, goneOrMoved: 0, onlyCounted: false }, commit };
  }
  const lost = new Difference();
  // A run that delivered all that it counted has doubled no row, and nothing can be missing.
  if (source.rows === 0 && commit.isWhole) {
    lost.gone = { count: delivered, keys: first.keys };
  } else {
    for (const group of groupsOf(differing, delivered + source.rows)) {
      const difference = new KeyDifference(group);
      const again = await readBoth(interval, request, receipt, difference);
      if (again.faults.length > 0) return { faults: again.faults };
      lost.add(difference.read());
    }
  }
  const keys = await interval.lookUp.find(request, source.columns, lost.gone.keys);
  return { rows: lost.answer(keys, commit), commit };
}

function deliveredRows({ rows, rejectedFiles }: Receipt): number {
  return rejectedFiles.reduce((sum, file) => sum + file.rows, rows);
}

class FirstKeys implements KeySink {
  readonly keys: string[] = [];
  readonly #sink: KeySink;

  constructor(sink: KeySink) {
    this.#sink = sink;
  }

  add(key: string, times: 1 | -1, generation?: number): void {
    this.#sink.add(key, times, generation);
    if (times === -1 && this.keys.length < maxLookedUp) this.keys.push(key);
  }
}

/** The buckets in groups whose keys fit into memory. */
export function* groupsOf(
  differing: readonly number[],
  keys: number,
): Generator<readonly number[]> {
  const { length } = bucketsToName([...Array(bucketCount).keys()], keys, heldKeys);
  for (let from = 0; from < differing.length; from += length) {
    yield differing.slice(from, from + length);
  }
}

export class Difference {
  #missing: Rows = noRows;
  /** In the files more often than in the source now, beside a first time; several commits wrote them. */
  #doubled: Rows = noRows;
  /** The same, but one commit wrote them. */
  #shared: Rows = noRows;
  /** Not in the source; its keys are those to look up. */
  gone: Rows = noRows;

  add({ lost, doubled, shared, foreign }: KeysThatDiffer): void {
    this.#missing = joinRows(this.#missing, lost, maxNamed);
    this.#doubled = joinRows(this.#doubled, doubled, maxNamed);
    this.#shared = joinRows(this.#shared, shared, maxNamed);
    this.gone = joinRows(this.gone, foreign, maxLookedUp);
  }

  /**
   * @param elsewhere those of the keys of `gone` that the source has in another interval; null: not known
   * @param commit rows of a view that share a key are in one commit. But if the files are of one run, it must have
   *   written as many rows as it read, and no other row may be missing
   */
  answer(
    elsewhere: ReadonlySet<string> | null,
    commit: Pick<CommitFacts, 'isWhole' | 'isChanged' | 'isLookedAt' | 'waitsFor' | 'isAccepted'>,
  ): RowAnswers {
    const { isWhole, isChanged } = commit;
    // Missing rows may have come late, so as many rows may have left.
    const mayBeLate = commit.isLookedAt || commit.waitsFor !== null || commit.isAccepted;
    const mayShare = isChanged || (isWhole && this.#missing.count === 0);
    const isUndecided = !mayShare && isWhole && mayBeLate && this.#doubled.count === 0;
    const shared = mayShare ? this.#shared.count : 0;
    const { count, keys } = this.#doubled;
    const doubled =
      mayShare || isUndecided
        ? this.#doubled
        : { count: count + this.#shared.count, keys: [...keys, ...this.#shared.keys] };
    const looked = elsewhere === null ? [] : this.gone.keys;
    const moved = looked.filter((key) => elsewhere?.has(key));
    const gone = looked.filter((key) => !elsewhere?.has(key));
    return {
      missing: named(this.#missing),
      doubled: named(doubled),
      undecided: isUndecided ? named(this.#shared) : noRows,
      gone: named({ count: gone.length + shared, keys: gone }),
      moved: named({ count: moved.length, keys: moved }),
      goneOrMoved: this.gone.count - looked.length,
      onlyCounted: false,
    };
  }
}

function joinRows({ count, keys }: Rows, more: readonly string[], most: number): Rows {
  return {
    count: count + more.length,
    keys: [...keys, ...more.slice(0, Math.max(0, most - keys.length))],
  };
}

function named({ count, keys }: Rows): Rows {
  return { count, keys: keys.slice(0, maxNamed).map(showKeys) };
}

export function requestOf(interval: VerifiedInterval, receipt: Receipt): SourceRequest {
  const { model, mode, tenantKey } = interval.batchExport;
  const { dslQuery, includeEvents, excludeEvents } = receipt.recipe;
  const query = { dslQuery, includeEvents, excludeEvents };
  const request = { model, tenantKey, interval: receipt.interval, ...query };
  return mode === 'append' ? request : { ...request, whole: true };
}

async function readBoth(
  interval: VerifiedInterval,
  request: SourceRequest,
  receipt: Receipt,
  sink: KeySink,
): Promise<{ readonly source: SourceRows; readonly faults: readonly string[] }> {
  const { source, signal } = interval;
  const sourceKeys = await readSourceKeys(source, request, signal, (key) => sink.add(key, 1));
  const makers = madeBy(receipt.recipe);
  const { columns } = sourceKeys;
  try {
    const faults = await verifyFiles(interval, receipt, makers, columns, (key, generation) =>
      sink.add(key, -1, generation),
    );
    return { source: sourceKeys, faults };
  } catch (error) {
    if (!(error instanceof ColumnsAbsent)) throw error;
    const faults = await verifyFiles(interval, receipt, makers, [], () => {});
    return { source: { ...sourceKeys, columns: [] }, faults };
  }
}
