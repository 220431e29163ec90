import type { Destination } from '../../rows/destinations/destination.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { readThrough } from '../../rows/pipeline/read-through.ts';
import type { Source, SourceSnapshot } from '../../rows/sources/source.ts';
import type { SmallPlace } from './memory-gate.ts';

/** Bytes of rows and manifests that a run may read with the memory of a small one. */
const mostRead = 512 * 1024;

/**
 * A run that was expected to be small. The expectation may be wrong: before the run reads more than a small run may, it
 * takes the memory of a large one. If that is not free, the attempt ends, and the run waits for a slot like all
 * large ones. It never reads on without the memory for it.
 */
export class SmallRun {
  readonly #place: SmallPlace;
  readonly #fullBytes: number;
  #mayRead: number;
  #hasOutgrown = false;

  /**
   * @param fullBytes memory of the run if it is large
   * @param mayRead bytes of rows and manifests
   */
  constructor(place: SmallPlace, fullBytes: number, mayRead = mostRead) {
    this.#place = place;
    this.#fullBytes = fullBytes;
    this.#mayRead = mayRead;
  }

  /** Whether the attempt ended because there was no memory to go on. */
  get hasOutgrown(): boolean {
    return this.#hasOutgrown;
  }

  /** The same source, whose snapshots end with `run.released` instead of reading more than there is memory for. */
  of(source: Source): Source {
    return {
      ...source,
      open: async (request, signal, position, server) => {
        const maxBytes = Math.min(this.#mayRead, mostRead);
        return this.#watch(await source.openSmall(request, signal, maxBytes, position, server));
      },
    };
  }

  /** The same destination, whose files it reads no further either: a store may answer with any number of bytes. */
  at<Place extends Pick<Destination, 'readFile' | 'holds'>>(destination: Place): Place {
    const counted = (body: AsyncIterable<Uint8Array>) => this.#count(body, ({ length }) => length);
    const readFile: Destination['readFile'] = async (key, options) => {
      const found = await destination.readFile(key, options);
      return found && { ...found, body: counted(found.body) };
    };
    const holds = (bytes: number) => this.#take(bytes);
    return Object.create(destination, { readFile: { value: readFile }, holds: { value: holds } });
  }

  async *#count<T>(all: AsyncIterable<T>, bytesOf: (one: T) => number): AsyncGenerator<T> {
    for await (const one of all) {
      this.#take(bytesOf(one));
      yield one;
    }
  }

  #take(bytes: number): void {
    this.#mayRead -= bytes;
    if (this.#mayRead >= 0) return;
    if (!this.#place.outgrow(this.#fullBytes)) {
      this.#hasOutgrown = true;
      throw new SluiceError('run.released');
    }
    this.#mayRead = Number.POSITIVE_INFINITY;
  }

  #watch(snapshot: SourceSnapshot): SourceSnapshot {
    return readThrough(
      snapshot,
      (inner) => (slice, signal) =>
        this.#count(inner.read(slice, signal), ({ bytes }) => bytes.length),
    );
  }
}
