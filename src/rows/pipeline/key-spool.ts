import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { SpoolFolder } from './spool-folder.ts';

/** Bytes of a key's digest that are kept. */
const digestBytes = 16;
/** A digest, then the row's number as a double. */
const recordBytes = digestBytes + 8;
/** Keys are compared part by part: a part of 10 million keys has 40,000. */
const partCount = 256;
const pageBytes = recordBytes * 170;
/** Full pages that are held before they go to the disk. */
const heldPages = 256;
/** Digests of a part that are in memory at a time. */
const maxHeld = 50_000;

/**
 * The keys of rows as digests (SHA-256, the first 128 bits), each with the row's number. Memory is constant for any number: many
 * keys go to a file in `folder`. Call `close` at the end.
 */
export class KeySpool {
  readonly #folder: SpoolFolder;
  readonly #name: string;
  readonly #open: (Buffer | undefined)[] = new Array(partCount);
  readonly #fill = new Int32Array(partCount);
  readonly #full: { readonly part: number; readonly page: Buffer }[] = [];
  /** By part, the offsets of its pages in the file. */
  readonly #offsets: number[][] = Array.from({ length: partCount }, () => []);
  #written = 0;
  #file: FileHandle | null = null;
  #count = 0;

  /** @param name of its file */
  constructor(folder: SpoolFolder, name: string) {
    this.#folder = folder;
    this.#name = name;
  }

  /** The number of added keys. */
  get count(): number {
    return this.#count;
  }

  /**
   * Adds the key of the next row.
   *
   * @returns what to wait for before the next one, if many keys go to the disk now
   */
  add(key: string): Promise<void> | undefined {
    const digest = createHash('sha256').update(key).digest();
    const part = digest[digestBytes] as number;
    this.#open[part] ??= Buffer.allocUnsafe(pageBytes);
    const page = this.#open[part];
    const at = this.#fill[part] as number;
    digest.copy(page, at, 0, digestBytes);
    page.writeDoubleLE(this.#count, at + digestBytes);
    this.#count += 1;
    this.#fill[part] = at + recordBytes;
    if (at + recordBytes < pageBytes) return undefined;
    this.#full.push({ part, page });
    this.#open[part] = undefined;
    this.#fill[part] = 0;
    return this.#full.length < heldPages ? undefined : this.#drain();
  }

  /** Writes the full pages to the disk. */
  async #drain(): Promise<void> {
    this.#file ??= await open(join(await this.#folder.path(), this.#name), 'w+', 0o600);
    for (const { part, page } of this.#full.splice(0)) {
      await this.#file.write(page, 0, pageBytes, this.#written);
      this.#offsets[part]?.push(this.#written);
      this.#written += pageBytes;
    }
  }

  /** The records of a part, in the order in which they were added. */
  async *#pages(part: number): AsyncGenerator<Buffer> {
    for (const offset of this.#offsets[part] ?? []) {
      const page = Buffer.allocUnsafe(pageBytes);
      await this.#file?.read(page, 0, pageBytes, offset);
      yield page;
    }
    for (const full of this.#full) if (full.part === part) yield full.page;
    const last = this.#open[part];
    if (last) yield last.subarray(0, this.#fill[part]);
  }

  /** The records of a part whose digests are wanted, in the order in which they were added. */
  async #read(part: number, isWanted: (digest: string) => boolean, tell: Tell): Promise<void> {
    for await (const page of this.#pages(part)) {
      for (let at = 0; at < page.length; at += recordBytes) {
        const digest = page.toString('latin1', at, at + digestBytes);
        if (isWanted(digest)) tell(digest, page.readDoubleLE(at + digestBytes));
      }
    }
  }

  #countOf(part: number): number {
    const pages = this.#full.filter((full) => full.part === part).length;
    const written = (this.#offsets[part]?.length ?? 0) + pages;
    return (written * pageBytes + (this.#fill[part] as number)) / recordBytes;
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
    for (let part = 0; part < partCount; part += 1) {
      const shares = Math.ceil(Math.max(1, other.#countOf(part)) / maxHeld);
      for (let share = 0; share < shares; share += 1) {
        const isWanted = (digest: string) => digest.charCodeAt(0) % shares === share;
        const counts = new Map<string, number>();
        await other.#read(part, isWanted, (digest) => {
          counts.set(digest, (counts.get(digest) ?? 0) + 1);
        });
        await this.#read(part, isWanted, (digest, row) => {
          const times = counts.get(digest);
          if (times === undefined || times === 0) tell({ row, digest }, times !== undefined);
          else counts.set(digest, times - 1);
        });
      }
    }
  }

  /** Its file goes with the folder. */
  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = null;
  }
}

export interface SpooledRow {
  /** From 0, in the order in which they were added. */
  readonly row: number;
  /** The digest of its key, as `digestOf` makes it. */
  readonly digest: string;
}

/** The digest of a key, as Latin-1 characters. */
export const digestOf = (key: string): string =>
  createHash('sha256').update(key).digest().toString('latin1', 0, digestBytes);

type Tell = (digest: string, row: number) => void;
