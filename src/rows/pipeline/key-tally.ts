import { createHash } from 'node:crypto';

/** A power of two. If something differs, rows are named from the buckets that differ. */
export const bucketCount = 4096;
const lanes = 4;

export interface KeySink {
  /**
   * @param times 1 for a key of the source, -1 for one of a file
   * @param generation of the file
   */
  add(key: string, times: 1 | -1, generation?: number): void;
}

function digestOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

/** From the digest's first two bytes; the sums use other bytes. */
export function bucketOf(digest: Buffer): number {
  return digest.readUInt16LE(0) % bucketCount;
}

/**
 * Checks in constant memory whether the files have each key as often as the source. Each key's SHA-256 is
 * added for the source and subtracted for the files: 128 bits and a count per bucket. If all sums are zero
 * the two are equal, except with a probability of 1 in 2^128.
 */
export class KeyTally implements KeySink {
  readonly #counts = new Float64Array(bucketCount);
  readonly #sums = new Int32Array(bucketCount * lanes);

  differing(): readonly number[] {
    const buckets: number[] = [];
    for (let bucket = 0; bucket < bucketCount; bucket += 1) {
      const sums = this.#sums.subarray(bucket * lanes, (bucket + 1) * lanes);
      if (this.#counts[bucket] !== 0 || sums.some((sum) => sum !== 0)) buckets.push(bucket);
    }
    return buckets;
  }

  add(key: string, times: 1 | -1): void {
    const digest = digestOf(key);
    const bucket = bucketOf(digest);
    this.#counts[bucket] = (this.#counts[bucket] as number) + times;
    for (let lane = 0; lane < lanes; lane += 1) {
      const at = bucket * lanes + lane;
      const word = digest.readInt32LE(4 + lane * 4);
      this.#sums[at] = (this.#sums[at] as number) + times * word;
    }
  }
}

/** Returns the first buckets that differ: as many as have at most `most` of `keys` keys, and at least one. */
export function bucketsToName(
  differing: readonly number[],
  keys: number,
  most: number,
): readonly number[] {
  return differing.slice(0, Math.max(1, Math.floor((most * bucketCount) / Math.max(1, keys))));
}

/** One entry per row; a row of a view may share its key with others. */
export interface KeysThatDiffer {
  /** In the source more often than in the files. */
  readonly lost: readonly string[];
  /** In the files more often than in the source, beside a first time: several commits wrote them. */
  readonly doubled: readonly string[];
  /** The same, but one commit wrote them: it may have read rows that share their key. */
  readonly shared: readonly string[];
  /** In the files and not in the source: the first time. */
  readonly foreign: readonly string[];
}

interface Due {
  /** The number of times that the key is still expected; below zero it came too often. */
  left: number;
  inSource: boolean;
  /** Of the first file that had it. */
  generation: number | undefined;
  isRepeated: boolean;
}

/** The difference of the files from the source, by the keys of some buckets. */
export class KeyDifference implements KeySink {
  readonly #buckets: ReadonlySet<number>;
  readonly #due = new Map<string, Due>();

  constructor(buckets: readonly number[]) {
    this.#buckets = new Set(buckets);
  }

  read(): KeysThatDiffer {
    const lost: string[] = [];
    const doubled: string[] = [];
    const shared: string[] = [];
    const foreign: string[] = [];
    for (const [key, { left, inSource, isRepeated }] of this.#due) {
      if (left < 0 && !inSource) foreign.push(key);
      const kind = left > 0 ? lost : isRepeated ? doubled : shared;
      const rows = left < 0 && !inSource ? -left - 1 : Math.abs(left);
      for (let row = 0; row < rows; row += 1) kind.push(key);
    }
    return { lost, doubled, shared, foreign };
  }

  add(key: string, times: 1 | -1, generation?: number): void {
    if (!this.#buckets.has(bucketOf(digestOf(key)))) return;
    const unseen: Due = { left: 0, inSource: false, generation, isRepeated: false };
    const due = this.#due.get(key) ?? unseen;
    due.left += times;
    if (times === 1) due.inSource = true;
    else if (due.generation === undefined) due.generation = generation;
    else due.isRepeated ||= due.generation !== generation;
    this.#due.set(key, due);
  }
}
