import type { Destination, UploadJournal } from '../destinations/destination.ts';
import type { ColumnMetrics } from '../../foundation/domain/column-metrics.ts';
import { fileKey, partitionOfKey, rejectedKey } from '../../foundation/domain/object-keys.ts';
import type { RemainingFile } from '../encoders/encoder.ts';
import type { CompletableFiles } from './commit.ts';
import { abortAll, HashedFile } from './file-set.ts';
import type { IntervalJob } from './interval-job.ts';
import type { CommittedFile, ManifestFile } from '../../foundation/domain/receipt.ts';

/** A file that is made again. */
export interface FileAgain {
  readonly before: CommittedFile;
  /** Its place among `of` files of its kind. */
  readonly index: number;
  readonly of: number;
  readonly isRejected: boolean;
  /** The number of remaining rows. */
  readonly rows: number;
}

/** The files that an erasure makes, each from the one that it replaces. After a failure call `abort`. */
export class ErasedFiles implements CompletableFiles {
  readonly #options: {
    readonly job: IntervalJob;
    readonly destination: Destination;
    readonly journal: UploadJournal;
    readonly signal: AbortSignal;
  };
  readonly #files: HashedFile[] = [];
  readonly #metrics = new Map<string, readonly ColumnMetrics[]>();

  constructor(options: {
    readonly job: IntervalJob;
    readonly destination: Destination;
    readonly journal: UploadJournal;
    readonly signal: AbortSignal;
  }) {
    this.#options = options;
  }

  get count(): number {
    return this.#files.length;
  }

  get rows(): number {
    return this.#files.reduce((total, file) => total + file.entry().rows, 0);
  }

  get bytes(): number {
    return this.#files.reduce((total, file) => total + file.bytes, 0);
  }

  get columnMetrics(): ReadonlyMap<string, readonly ColumnMetrics[]> {
    return this.#metrics;
  }

  /** Writes a file. Nothing is readable before `complete`, unless the file replaces its own key. */
  async write(again: FileAgain, rest: RemainingFile): Promise<ManifestFile> {
    const { job, destination, journal, signal } = this.#options;
    const { exportId: owner, encoding, writesManifest, generation } = job;
    const run = { id: job.runId, era: job.era };
    const key = writesManifest ? this.#keyOf(again) : again.before.key;
    const contentType = again.isRejected ? 'application/x-ndjson' : encoding.contentType;
    // A file that is put at once stays in memory until the commit: the others have uploads.
    const isNewKey = writesManifest && this.#files.length === 0;
    const options = { key, contentType, owner, run, isNewKey };
    const writer = await destination.createFile(options, journal, signal);
    const file = new HashedFile(key, writesManifest ? generation : again.before.generation, writer);
    this.#files.push(file);
    for await (const chunk of rest.bytes) {
      signal.throwIfAborted();
      await file.write([chunk], 0);
    }
    await file.write([], again.rows);
    await file.flush();
    this.#metrics.set(key, rest.columnMetrics ?? []);
    return file.entry();
  }

  #keyOf({ before, index, of, isRejected }: FileAgain): string {
    const { names, generation, maxFileBytes, encoding } = this.#options.job;
    // The keys keep the order of the rows.
    const part = of === 1 && maxFileBytes === null ? null : index + 1;
    const partition = partitionOfKey(names.stem, before.key) ?? '';
    const key = fileKey(names, generation, part, encoding.extension, partition);
    return isRejected ? rejectedKey(key) : key;
  }

  async complete(
    completeOne: (file: HashedFile) => Promise<{ readonly etag: string | null }>,
  ): Promise<ReadonlyMap<string, string | null>> {
    const tags = new Map<string, string | null>();
    for (const file of this.#files) tags.set(file.key, (await completeOne(file)).etag);
    return tags;
  }

  async abort(): Promise<void> {
    await abortAll(this.#files);
  }
}
