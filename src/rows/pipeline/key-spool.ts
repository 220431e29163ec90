import { createHash } from 'node:crypto';
import { digestBytes, RecordSpool } from './record-spool.ts';
import type { SpoolFolder } from './spool-folder.ts';

/** The keys of rows as digests, each with the row's number as a double. Call `close` at the end. */
export class KeySpool {
  readonly #records: RecordSpool;

  /** @param name of its file */
  constructor(folder: SpoolFolder, name: string) {
    this.#records = new RecordSpool(folder, name, digestBytes + 8);
  }

  /** The number of added keys. */
  get count(): number {
    return this.#records.count;
  }

  /**
   * Adds the key of the next row.
   *
   * @returns what to wait for before the next one, if many keys go to the disk now
   */
  add(key: string): Promise<void> | undefined {
    const row = this.#records.count;
    return this.#records.add(wholeDigestOf(key), (page, at) => page.writeDoubleLE(row, at));
  }

  /**
   * The rows of this spool whose keys `other` does not have, or has less often. Each key of `other` accounts for one row.
   *
   * @param tell gets the row, and whether `other` has its key at all
   */
  async subtract(
    other: KeySpool,
    tell: (row: SpooledRow, isKnown: boolean) => void,
  ): Promise<void> {
    for (const share of other.#records.shares()) {
      const counts = new Map<string, number>();
      await other.#records.read(share, (digest) => {
        counts.set(digest, (counts.get(digest) ?? 0) + 1);
      });
      await this.#records.read(share, (digest, page, at) => {
        const times = counts.get(digest);
        if (times === undefined || times === 0) {
          tell({ row: page.readDoubleLE(at), digest }, times !== undefined);
        } else counts.set(digest, times - 1);
      });
    }
  }

  /** Its file goes with the folder. */
  close(): Promise<void> {
    return this.#records.close();
  }
}

export interface SpooledRow {
  /** From 0, in the order in which they were added. */
  readonly row: number;
  /** The digest of its key, as `digestOf` makes it. */
  readonly digest: string;
}

export const wholeDigestOf = (text: string): Buffer => createHash('sha256').update(text).digest();

/** The digest of a key, as Latin-1 characters. */
export const digestOf = (key: string): string =>
  wholeDigestOf(key).toString('latin1', 0, digestBytes);
