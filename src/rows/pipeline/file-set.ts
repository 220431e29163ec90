import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { ColumnMetrics } from '../../foundation/domain/column-metrics.ts';
import { fileKey, rejectedKey } from '../../foundation/domain/object-keys.ts';
import type { ManifestFile } from '../../foundation/domain/receipt.ts';
import { type Column, type RowBlock, rowsOf } from '../../foundation/domain/row-block.ts';
import type {
  CompleteOptions,
  Destination,
  FileWriter,
  UploadJournal,
} from '../destinations/destination.ts';
import type { FileEncoder } from '../encoders/encoder.ts';
import type { BlockTransformer, TransformedRows } from '../transforms/transform-rows.ts';
import type { IntervalJob } from './interval-job.ts';
import { ValueRules } from './value-rules.ts';
import type { KeySpool } from './key-spool.ts';
import type { PartitionedRows } from './partitioned-rows.ts';
import { Portions } from './portions.ts';
import {
  encodeRejectedRows,
  encodeRejections,
  type Rejections,
  RejectionTally,
} from './rejection-tally.ts';
import { KeyNotes, RowKeys } from './row-keys.ts';

export interface FileSetOptions
  extends Pick<IntervalJob, 'exportId' | 'runId' | 'era' | 'encoding' | 'names' | 'interval'>,
    Pick<IntervalJob, 'generation' | 'writesManifest' | 'maxFileBytes'> {
  readonly destination: Destination;
  readonly journal: UploadJournal;
  readonly columns: readonly Column[];
  /** The indices of the model's keys among `columns`, for those that the rows show. */
  readonly keyIndices: readonly number[];
  /** Sorts the rows by partition; null: the files have none. The set closes it. */
  readonly partitions: PartitionedRows | null;
  /** Gets the keys of all rows, if they are to be compared with those of other files. */
  readonly keys?: KeySpool | null;
  /** Stops what the writers wait for. */
  readonly signal: AbortSignal;
}

interface OpenFile {
  readonly file: HashedFile;
  readonly encoder: FileEncoder;
  /** Begun with the first row that the format cannot represent; of partitions all have one. */
  rejected: HashedFile | null;
}

/** Bytes of files that wait in memory for the commit, because they are put at once. */
const maxHeldBytes = 4 * 1024 ** 2;
/** Memory of a file that waits for its commit; estimated. `e2e/worker-memory` bounds the sum of 5,000. */
const waitingFileBytes = 8 * 1024;

/** The files of one interval while they are written, each begun with its first row. After a failure call `abort`. */
export class FileSet {
  readonly #options: FileSetOptions;
  readonly #ended: HashedFile[] = [];
  readonly #endedRejected: HashedFile[] = [];
  readonly #rejections: RejectionTally;
  readonly #rules: ValueRules;
  readonly #keyNotes: KeyNotes | null;
  /** Facts of the format about the columns of each file, by key; valid after `finish`. */
  readonly columnMetrics = new Map<string, readonly ColumnMetrics[]>();
  #open: OpenFile | null = null;
  #partition = '';
  readonly #parts = new Map<string, number>();
  /** The rejected rows of all partitions: beside the manifest, so that folders of values have data files only. */
  #rejected: HashedFile | null = null;
  #heldBytes = 0;
  /** Ends when the file before the open one is sent: at most one file waits for the destination. */
  readonly #portions = new Portions();
  #sending: Promise<unknown> = Promise.resolve();
  rows = 0;
  /** Rows that the format could not represent, or that a step rejected. */
  rejectedRows = 0;

  constructor(options: FileSetOptions) {
    this.#options = options;
    const { columns, keyIndices, encoding } = options;
    this.#rejections = new RejectionTally(columns, keyIndices, encoding.toJson);
    this.#rules = new ValueRules(columns, keyIndices, encoding);
    const rowKeys = new RowKeys(columns, keyIndices, encoding.toJson);
    this.#keyNotes = options.keys ? new KeyNotes(options.keys, rowKeys) : null;
  }

  get rejections(): readonly Rejections[] {
    return this.#rejections.all;
  }

  get bytes(): number {
    return this.#all().reduce((total, file) => total + file.bytes, 0);
  }

  get count(): number {
    return this.#ended.length + (this.#open ? 1 : 0);
  }

  /** Writes the rows of a block, or what a chain makes of them, which may come in `finishRows`. @returns how many rows the chain dropped */
  async writeRows(block: RowBlock, transformer: BlockTransformer | null): Promise<number> {
    if (!transformer) {
      await this.write(block);
      return 0;
    }
    let dropped = 0;
    for (const part of this.#portions.of(block)) {
      const transformed = await transformer.write(part);
      this.#portions.see(transformed);
      dropped += await this.#writeMade(transformed);
    }
    return dropped;
  }

  /** Writes the blocks that the chain has held back. */
  async finishRows(transformer: BlockTransformer | null): Promise<number> {
    return transformer ? this.#writeMade(await transformer.finish()) : 0;
  }

  async #writeMade(made: readonly TransformedRows[]): Promise<number> {
    let rows = 0;
    for (const { block, rejected, dropped } of made) {
      if (rejected.length > 0) {
        this.#rejections.addSteps(rejected);
        await this.#keyNotes?.addRejections(rejected);
        await this.#reject(encodeRejections(rejected), rejected.length);
      }
      await this.write(block);
      rows += dropped;
    }
    return rows;
  }

  async write(given: RowBlock): Promise<void> {
    if (given.rowCount === 0) return;
    // The keys as the source has them.
    await this.#keyNotes?.addRows(given);
    const block = await this.#rules.apply(given);
    const { partitions } = this.#options;
    if (!partitions) return this.#writeToFiles(block);
    let added = await partitions.add(block, 0);
    while (added < block.rowCount) {
      await this.#writePass(partitions);
      added = await partitions.add(block, added);
    }
  }

  async #writePass(partitions: PartitionedRows): Promise<void> {
    for await (const { folder, blocks } of partitions.takePass()) {
      this.#options.signal.throwIfAborted();
      this.#partition = folder;
      for await (const block of blocks) await this.#writeToFiles(block);
      await this.#end();
    }
  }

  async #writeToFiles(given: RowBlock): Promise<void> {
    let block = given;
    while (block.rowCount > 0) {
      const taken = await this.#writeToFile(block);
      if (taken === block.rowCount) return;
      await this.#end();
      block = rowsOf(block, taken);
    }
  }

  async #writeToFile(block: RowBlock): Promise<number> {
    this.#open ??= await this.#begin();
    const { file, encoder } = this.#open;
    const chunks = await encoder.write(block);
    const taken = encoder.taken ?? block.rowCount;
    const rejected = encoder.rejected ?? [];
    await file.write(chunks, taken - rejected.length);
    encoder.release?.();
    this.rows += taken - rejected.length;
    if (rejected.length > 0) {
      this.#rejections.addRows(block, rejected);
      const { encoding } = this.#options;
      const open = () => encoding.openJsonLines(block.columns);
      const bytes = await encodeRejectedRows(open, block, rejected);
      await this.#reject(bytes, rejected.length);
    }
    const { maxFileBytes } = this.#options;
    // Otherwise the encoder keeps to the limit.
    const isCountedHere = maxFileBytes !== null && encoder.taken === undefined;
    if (isCountedHere && file.bytes + encoder.heldBytes >= maxFileBytes) await this.#end();
    return taken;
  }

  async #reject(lines: readonly Uint8Array[], rows: number): Promise<void> {
    const file = await this.#rejectedFile();
    await file.write(lines, rows);
    this.rejectedRows += rows;
  }

  async #rejectedFile(): Promise<HashedFile> {
    const { partitions, names, generation, encoding } = this.#options;
    const create = (key: string) => this.#create(rejectedKey(key), 'application/x-ndjson');
    if (partitions) {
      this.#rejected ??= await create(fileKey(names, generation, null, encoding.extension));
      return this.#rejected;
    }
    this.#open ??= await this.#begin();
    this.#open.rejected ??= await create(this.#open.file.key);
    return this.#open.rejected;
  }

  /** Ends the last file, and waits until all bytes are at the destination. Nothing is readable yet. */
  async finish(): Promise<Readonly<Record<'files' | 'rejectedFiles', readonly ManifestFile[]>>> {
    const { partitions } = this.#options;
    if (partitions) await this.#writePass(partitions);
    await partitions?.close();
    if (this.#open) await this.#end();
    if (this.#rejected) this.#endedRejected.push(this.#rejected);
    this.#rejected = null;
    // A partition can come again in a later pass.
    if (partitions) this.#ended.sort(byFolder);
    for (const file of this.#all()) await file.flush();
    return {
      files: this.#ended.map((file) => file.entry()),
      rejectedFiles: this.#endedRejected.map((file) => file.entry()),
    };
  }

  complete(completeOne: CompleteOne): Promise<Tags> {
    return completeAll(this.#all(), completeOne);
  }

  async abort(): Promise<void> {
    await abortAll(this.#all());
    await this.#options.partitions?.close();
  }

  #all(): readonly HashedFile[] {
    const open = [this.#open?.file ?? null, this.#open?.rejected ?? null, this.#rejected];
    return [...this.#ended, ...this.#endedRejected, ...open.filter((file) => file !== null)];
  }

  async #begin(): Promise<OpenFile> {
    const { exportId, encoding, columns } = this.#options;
    const { names, interval, generation, maxFileBytes } = this.#options;
    if (this.#options.partitions) this.#options.destination.holds?.(waitingFileBytes);
    const number = (this.#parts.get(this.#partition) ?? 0) + 1;
    const part = maxFileBytes === null && number === 1 ? null : number;
    const key = fileKey(names, generation, part, encoding.extension, this.#partition);
    this.#parts.set(this.#partition, number);
    const file = await this.#create(key, encoding.contentType);
    const encoder = encoding.open(columns, {
      maxBytes: maxFileBytes,
      origin: { exportId, interval },
    });
    return { file, encoder, rejected: null };
  }

  async #end(): Promise<void> {
    if (!this.#open) return;
    const { file, encoder, rejected } = this.#open;
    await file.write(await encoder.finish(), 0);
    this.columnMetrics.set(file.key, encoder.columnMetrics ?? []);
    this.#ended.push(file);
    if (file.isHeld) this.#heldBytes += file.bytes;
    if (rejected) this.#endedRejected.push(rejected);
    this.#open = null;
    await this.#sending;
    this.#sending = Promise.all([file.flush(), rejected?.flush()]);
    // Thrown when it is awaited: by the next file's end, or by `finish`.
    this.#sending.catch(() => {});
  }

  async #create(key: string, contentType: string): Promise<HashedFile> {
    const { exportId: owner, runId, era, maxFileBytes: maxBytes } = this.#options;
    const { writesManifest, partitions, destination, journal, signal } = this.#options;
    // A file that is put at once stays in memory until the commit: the others of the interval have uploads.
    const mayHold = partitions ? this.#heldBytes < maxHeldBytes : this.#ended.length === 0;
    const isNewKey = writesManifest && mayHold;
    const run = { id: runId, era };
    const options = { key, contentType, owner, isNewKey, maxBytes, run };
    const writer = await destination.createFile(options, journal, signal);
    return new HashedFile(key, this.#options.generation, writer);
  }
}

/** Maximum bytes hashed, copied and sent in one turn of the event loop: a row group has 16 MiB. */
const turnBytes = 1 << 20;

export class HashedFile {
  readonly key: string;
  readonly #generation: number;
  readonly #writer: FileWriter;
  readonly #hash = createHash('sha256');
  #rows = 0;
  #bytes = 0;

  constructor(key: string, generation: number, writer: FileWriter) {
    this.key = key;
    this.#generation = generation;
    this.#writer = writer;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Says whether it is in memory until it is complete, after all is written. */
  get isHeld(): boolean {
    return this.#writer.upload === null;
  }

  async write(chunks: readonly Uint8Array[], rows: number): Promise<void> {
    this.#rows += rows;
    let taken = 0;
    for (const chunk of chunks) {
      for (let start = 0; start < chunk.byteLength; start += turnBytes) {
        const piece = chunk.subarray(start, start + turnBytes);
        taken += piece.byteLength;
        if (taken > turnBytes) {
          await setImmediate();
          taken = piece.byteLength;
        }
        this.#hash.update(piece);
        this.#bytes += piece.byteLength;
        await this.#writer.write(piece);
      }
    }
  }

  /** Its entry in the manifest, after all is written. */
  entry(): ManifestFile {
    return {
      key: this.key,
      generation: this.#generation,
      rows: this.#rows,
      bytes: this.#bytes,
      sha256: this.#hash.copy().digest('hex'),
    };
  }

  flush(): Promise<void> {
    return this.#writer.flush();
  }

  complete(options: CompleteOptions): Promise<{ readonly etag: string | null }> {
    return this.#writer.complete(options);
  }

  abort(): Promise<void> {
    return this.#writer.abort();
  }
}

/** Makes a file readable at its key. */
export type CompleteOne = (file: HashedFile) => Promise<{ readonly etag: string | null }>;

export type Tags = ReadonlyMap<string, string | null>;

export async function completeAll(
  files: readonly HashedFile[],
  completeOne: CompleteOne,
): Promise<Tags> {
  const tags = new Map<string, string | null>();
  for (const file of files) tags.set(file.key, (await completeOne(file)).etag);
  return tags;
}

/** Each has some seconds, so they must not all begin at once. */
const abortedAtOnce = 8;

/** For all of them: the run is handed back only afterwards, and a shutdown waits for that. */
const abortPatienceMs = 5_000;

/** Aborts files, the last ones first: they may still be sent. A sweep aborts the uploads of those that are left. */
export async function abortAll(files: readonly HashedFile[]): Promise<void> {
  const latest = files.toReversed();
  const began = performance.now();
  for (let at = 0; at < latest.length; at += abortedAtOnce) {
    const some = latest.slice(at, at + abortedAtOnce);
    const ends = await Promise.allSettled(some.map((file) => file.abort()));
    const isSilent = ends.every(({ status }) => status === 'rejected');
    if (isSilent || performance.now() - began > abortPatienceMs) return;
  }
}

const folderOf = ({ key }: HashedFile) => key.slice(0, key.lastIndexOf('/') + 1);

/** Orders files by their folders; those of one folder stay as they are. */
function byFolder(one: HashedFile, other: HashedFile): number {
  const [before, after] = [folderOf(one), folderOf(other)];
  return before < after ? -1 : Number(before > after);
}
