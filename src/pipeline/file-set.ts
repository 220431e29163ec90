import { createHash, type Hash } from 'node:crypto';
import type { Destination, FileWriter, UploadJournal } from '../destinations/destination.ts';
import { fileKey } from '../domain/object-keys.ts';
import type { Column, RowBlock } from '../domain/row-block.ts';
import type { DataInterval } from '../domain/time.ts';
import type { FileEncoder } from '../encoders/encoder.ts';
import type { Encoding } from './interval-job.ts';
import type { ManifestFile } from './manifest.ts';

export interface FileSetOptions {
  readonly destination: Destination;
  readonly journal: UploadJournal;
  readonly encoding: Encoding;
  readonly columns: readonly Column[];
  readonly prefix: string;
  readonly interval: DataInterval;
  readonly maxFileBytes: number | null;
}

interface OpenFile {
  readonly key: string;
  readonly writer: FileWriter;
  readonly encoder: FileEncoder;
  readonly hash: Hash;
  rows: number;
  bytes: number;
}

/**
 * The files of one interval on their way. A file is begun with its first row, so that an interval
 * without rows has none; all become readable together in `complete`. After a failure `abort` is due.
 */
export class FileSet {
  readonly #options: FileSetOptions;
  readonly #ended: { readonly writer: FileWriter; readonly file: ManifestFile }[] = [];
  #open: OpenFile | null = null;
  #rows = 0;
  #rejectedRows = 0;
  #bytes = 0;

  constructor(options: FileSetOptions) {
    this.#options = options;
  }

  /** Rows taken so far. */
  get rows(): number {
    return this.#rows;
  }

  /** Rows that the format could not hold. */
  get rejectedRows(): number {
    return this.#rejectedRows;
  }

  /** Bytes made so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Files begun so far. */
  get count(): number {
    return this.#ended.length + (this.#open ? 1 : 0);
  }

  async write(block: RowBlock): Promise<void> {
    if (block.rowCount === 0) return;
    const file = this.#open ?? (await this.#begin());
    const chunks = await file.encoder.write(block);
    const rejected = file.encoder.rejected?.length ?? 0;
    file.rows += block.rowCount - rejected;
    this.#rows += block.rowCount - rejected;
    this.#rejectedRows += rejected;
    await this.#send(file, chunks);
    const { maxFileBytes } = this.#options;
    if (maxFileBytes !== null && file.bytes + file.encoder.heldBytes >= maxFileBytes) {
      await this.#end(file);
    }
  }

  /** Ends the last file. Nothing is readable yet. */
  async finish(): Promise<readonly ManifestFile[]> {
    if (this.#open) await this.#end(this.#open);
    return this.#ended.map(({ file }) => file);
  }

  /** Makes every file readable at its key. */
  async complete(): Promise<void> {
    for (const { writer } of this.#ended) await writer.complete();
  }

  /** Leaves nothing behind of the files that are not complete. */
  async abort(): Promise<void> {
    const writers = [...this.#ended.map(({ writer }) => writer)];
    if (this.#open) writers.push(this.#open.writer);
    await Promise.allSettled(writers.map((writer) => writer.abort()));
  }

  async #begin(): Promise<OpenFile> {
    const { destination, journal, encoding, columns, prefix, interval, maxFileBytes } =
      this.#options;
    const part = maxFileBytes === null ? null : this.#ended.length + 1;
    const key = fileKey(prefix, interval, part, encoding.extension);
    const { contentType, contentEncoding } = encoding;
    const writer = await destination.createFile({ key, contentType, contentEncoding }, journal);
    const encoder = encoding.open(columns);
    this.#open = { key, writer, encoder, hash: createHash('sha256'), rows: 0, bytes: 0 };
    return this.#open;
  }

  async #end(file: OpenFile): Promise<void> {
    await this.#send(file, await file.encoder.finish());
    const { key, rows, bytes, hash, writer } = file;
    this.#ended.push({ writer, file: { key, rows, bytes, sha256: hash.digest('hex') } });
    this.#open = null;
  }

  async #send(file: OpenFile, chunks: readonly Uint8Array[]): Promise<void> {
    for (const chunk of chunks) {
      file.hash.update(chunk);
      file.bytes += chunk.byteLength;
      this.#bytes += chunk.byteLength;
      await file.writer.write(chunk);
    }
  }
}
