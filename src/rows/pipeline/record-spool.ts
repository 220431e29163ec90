import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { SpoolFolder } from './spool-folder.ts';

/** Bytes of a digest (SHA-256) by which records belong together. */
export const digestBytes = 16;
/** Records are compared part by part: a part of 10 million has 40,000. */
export const partCount = 256;
const recordsPerPage = 170;
/** Full pages that are held before they go to the disk. */
const heldPages = 256;
/** Digests of a part that are in memory at a time. */
const maxHeld = 50_000;

/**
 * Records of one size that begin with a digest. Memory is constant for any number: many go to a file in `folder`. Call `close` at
 * the end.
 */
export class RecordSpool {
  readonly #folder: SpoolFolder;
  readonly #name: string;
  readonly #recordBytes: number;
  readonly #pageBytes: number;
  readonly #open: (Buffer | undefined)[] = new Array(partCount);
  readonly #fill = new Int32Array(partCount);
  readonly #full: { readonly part: number; readonly page: Buffer }[] = [];
  /** By part, the offsets of its pages in the file. */
  readonly #offsets: number[][] = Array.from({ length: partCount }, () => []);
  #written = 0;
  #file: FileHandle | null = null;
  #count = 0;

  /** @param name of its file */
  constructor(folder: SpoolFolder, name: string, recordBytes: number) {
    this.#folder = folder;
    this.#name = name;
    this.#recordBytes = recordBytes;
    this.#pageBytes = recordBytes * recordsPerPage;
  }

  /** The number of added records. */
  get count(): number {
    return this.#count;
  }

  /**
   * Adds a record.
   *
   * @param digest whole
   * @param fill writes what follows the digest
   * @returns what to wait for before the next one, if many go to the disk now
   */
  add(digest: Buffer, fill: (page: Buffer, at: number) => void): Promise<void> | undefined {
    const part = digest[digestBytes] as number;
    this.#open[part] ??= Buffer.allocUnsafe(this.#pageBytes);
    const page = this.#open[part];
    const at = this.#fill[part] as number;
    digest.copy(page, at, 0, digestBytes);
    fill(page, at + digestBytes);
    this.#count += 1;
    this.#fill[part] = at + this.#recordBytes;
    if (at + this.#recordBytes < this.#pageBytes) return undefined;
    this.#full.push({ part, page });
    this.#open[part] = undefined;
    this.#fill[part] = 0;
    return this.#full.length < heldPages ? undefined : this.#drain();
  }

  /** Writes the full pages to the disk. */
  async #drain(): Promise<void> {
    this.#file ??= await open(join(await this.#folder.path(), this.#name), 'w+', 0o600);
    for (const { part, page } of this.#full.splice(0)) {
      await this.#file.write(page, 0, this.#pageBytes, this.#written);
      this.#offsets[part]?.push(this.#written);
      this.#written += this.#pageBytes;
    }
  }

  /** The records of a part, in the order in which they were added. */
  async *#pages(part: number): AsyncGenerator<Buffer> {
    for (const offset of this.#offsets[part] ?? []) {
      const page = Buffer.allocUnsafe(this.#pageBytes);
      await this.#file?.read(page, 0, this.#pageBytes, offset);
      yield page;
    }
    for (const full of this.#full) if (full.part === part) yield full.page;
    const last = this.#open[part];
    if (last) yield last.subarray(0, this.#fill[part]);
  }

  /**
   * Reads the records of a share in the order in which they were added.
   *
   * @param tell gets the digest, as Latin-1 characters, and where in the page what follows it is
   */
  async read(
    { part, share, shares }: Share,
    tell: (digest: string, page: Buffer, at: number) => void,
  ): Promise<void> {
    for await (const page of this.#pages(part)) {
      for (let at = 0; at < page.length; at += this.#recordBytes) {
        const digest = page.toString('latin1', at, at + digestBytes);
        if (digest.charCodeAt(0) % shares === share) tell(digest, page, at + digestBytes);
      }
    }
  }

  /** Shares of all digests, each small enough to hold those of this spool. Equal digests are in the same share of any spool. */
  *shares(): Generator<Share> {
    for (let part = 0; part < partCount; part += 1) {
      const shares = Math.ceil(Math.max(1, this.#countOf(part)) / maxHeld);
      for (let share = 0; share < shares; share += 1) yield { part, share, shares };
    }
  }

  #countOf(part: number): number {
    const pages = this.#full.filter((full) => full.part === part).length;
    const written = (this.#offsets[part]?.length ?? 0) + pages;
    return written * recordsPerPage + (this.#fill[part] as number) / this.#recordBytes;
  }

  /** Its file goes with the folder. */
  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = null;
  }
}

/** A part of all digests. */
export interface Share {
  readonly part: number;
  readonly share: number;
  readonly shares: number;
}
