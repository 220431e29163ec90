import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { CompleteOptions, FileWriter } from '../destinations/destination.ts';
import type { ManifestFile } from './manifest.ts';

/** Maximum bytes hashed, copied and sent in one turn of the event loop: a row group has 16 MiB. */
const turnBytes = 1 << 20;

/** A file that is counted and hashed while it is written. */
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

  /** @param rows number of rows in the chunks */
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
export function byFolder(one: HashedFile, other: HashedFile): number {
  const [before, after] = [folderOf(one), folderOf(other)];
  if (before === after) return 0;
  return before < after ? -1 : 1;
}
