import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { FileWriter, ManifestTag } from '../destinations/destination.ts';
import type { ManifestFile } from './manifest.ts';

/** Hashed, copied and sent in one turn of the event loop: a row group comes as 16 MiB at once. */
const turnBytes = 1 << 20;

/** A file on its way, counted and hashed as it is written. */
export class HashedFile {
  readonly key: string;
  readonly #writer: FileWriter;
  readonly #hash = createHash('sha256');
  #rows = 0;
  #bytes = 0;

  constructor(key: string, writer: FileWriter) {
    this.key = key;
    this.#writer = writer;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** @param rows how many rows the chunks are counted for */
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

  /** What the manifest says of it, once all is written. */
  entry(): ManifestFile {
    return {
      key: this.key,
      rows: this.#rows,
      bytes: this.#bytes,
      sha256: this.#hash.copy().digest('hex'),
    };
  }

  flush(): Promise<void> {
    return this.#writer.flush();
  }

  /** @param replaces the tag of what must be at the key; null for nothing */
  complete(replaces: ManifestTag): Promise<{ readonly etag: string | null }> {
    return this.#writer.complete({ replaces, sha256: this.entry().sha256 });
  }

  abort(): Promise<void> {
    return this.#writer.abort();
  }

  suspend(): Promise<void> {
    return this.#writer.suspend();
  }
}
