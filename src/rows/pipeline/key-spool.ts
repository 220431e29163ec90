import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import type { Column } from '../../foundation/domain/row-block.ts';
import { RowSpool } from './row-spool.ts';

/** A folder on local disk for one attempt, in the system's temporary folder. It is made if something needs it. */
export class SpoolFolder {
  #path: Promise<string> | null = null;

  path(): Promise<string> {
    this.#path ??= mkdtemp(join(tmpdir(), 'sluice-run-'));
    return this.#path;
  }

  async remove(): Promise<void> {
    if (this.#path) await rm(await this.#path, { recursive: true, force: true });
  }
}

/** Bytes of a digest (SHA-256) by which records belong together. */
export const digestBytes = 16;
/** Records are compared part by part: a part of 10 million has 40,000. */
const partCount = 256;
/** Digests of a part that are in memory at a time. */
const maxHeld = 50_000;
/** A run may have several such spools. */
const limits = { memoryBytes: 2 * 1024 ** 2, blockBytes: 64 * 1024 };

const recordColumn: Column = { name: 'record', type: 'text', sourceType: 'text' };

/** Records of one size that begin with a digest. Memory is constant for any number. Call `close` at the end. */
export class RecordSpool {
  readonly #recordBytes: number;
  readonly #rows = new RowSpool([recordColumn], limits);
  readonly #counts = new Int32Array(partCount);
  readonly #offsets = Int32Array.of(0);
  readonly #lengths: Int32Array;

  constructor(recordBytes: number) {
    this.#recordBytes = recordBytes;
    this.#lengths = Int32Array.of(recordBytes);
  }

  /** @param digest whole @param fill writes what follows it @returns what to wait for before the next one */
  add(digest: Buffer, fill: (record: Buffer, at: number) => void): Promise<void> | undefined {
    const part = digest[digestBytes] as number;
    const bytes = Buffer.allocUnsafe(this.#recordBytes);
    digest.copy(bytes, 0, 0, digestBytes);
    fill(bytes, digestBytes);
    this.#counts[part] = (this.#counts[part] as number) + 1;
    const [offsets, lengths] = [this.#offsets, this.#lengths];
    return this.#rows.add(part, { columns: [], rowCount: 1, bytes, offsets, lengths }, 0);
  }

  /** Reads the records of a share, oldest first. @param tell gets the digest as Latin-1, and where what follows it is */
  async read(
    { part, share, shares }: Share,
    tell: (digest: string, bytes: Buffer, at: number) => void,
  ): Promise<void> {
    for await (const { bytes, offsets } of this.#rows.read(part)) {
      for (const at of offsets) {
        const digest = bytes.toString('latin1', at, at + digestBytes);
        if (digest.charCodeAt(0) % shares === share) tell(digest, bytes, at + digestBytes);
      }
    }
  }

  /** Shares of all digests, each small enough to hold those of this spool. Equal digests are in the same share of any spool. */
  *shares(): Generator<Share> {
    for (const [part, count] of this.#counts.entries()) {
      const shares = Math.ceil(Math.max(1, count) / maxHeld);
      for (let share = 0; share < shares; share += 1) yield { part, share, shares };
    }
  }

  close(): Promise<void> {
    return this.#rows.close();
  }
}

/** A part of all digests. */
interface Share {
  readonly part: number;
  readonly share: number;
  readonly shares: number;
}

/** The keys of rows as digests, each with the row's number as a double. Call `close` at the end. */
export class KeySpool {
  readonly #records = new RecordSpool(digestBytes + 8);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Adds the key of the next row. @returns what to wait for before the one after it */
  add(key: string): Promise<void> | undefined {
    const row = this.#count;
    this.#count += 1;
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

  close(): Promise<void> {
    return this.#records.close();
  }
}

interface SpooledRow {
  /** From 0, in the order in which they were added. */
  readonly row: number;
  /** The digest of its key, as `digestOf` makes it. */
  readonly digest: string;
}

export const wholeDigestOf = (text: string): Buffer => createHash('sha256').update(text).digest();

/** The digest of a key, as Latin-1 characters. */
export const digestOf = (key: string): string =>
  wholeDigestOf(key).toString('latin1', 0, digestBytes);

/** Numbers of rows: one bit for each, up to the last. */
export class RowBits {
  #bits = new Uint8Array(64);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Each row at most once. */
  add(row: number): void {
    const at = Math.floor(row / 8);
    if (at >= this.#bits.length) {
      const grown = new Uint8Array(Math.max(at + 1, this.#bits.length * 2));
      grown.set(this.#bits);
      this.#bits = grown;
    }
    this.#bits[at] = (this.#bits[at] as number) | (1 << (row % 8));
    this.#count += 1;
  }

  has(row: number): boolean {
    return ((this.#bits[Math.floor(row / 8)] ?? 0) & (1 << (row % 8))) !== 0;
  }
}
