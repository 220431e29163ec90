import { SluiceError } from '../../foundation/domain/errors.ts';
import type { RowBlock } from '../../foundation/domain/row-block.ts';
import type { Destination } from '../../rows/destinations/destination.ts';
import type { Source, SourceRequest, SourceSnapshot } from '../../rows/sources/source.ts';
import type { SmallSlot } from './memory-gate.ts';

/** Bytes of rows and manifests that a run may read with the memory of a small one. */
const mostRead = 512 * 1024;

/**
 * A run that was expected to be small. The expectation may be wrong: before the run reads more than a small run may, it
 * takes the memory of a large one. If that is not free, the attempt ends, and the run waits for a slot like all
 * large ones. It never reads on without the memory for it.
 */
export class SmallRun {
  readonly #slot: SmallSlot;
  readonly #fullBytes: number;
  #mayRead: number;
  #hasOutgrown = false;

  /**
   * @param fullBytes memory of the run if it is large
   * @param mayRead bytes of rows and manifests
   */
  constructor(slot: SmallSlot, fullBytes: number, mayRead = mostRead) {
    this.#slot = slot;
    this.#fullBytes = fullBytes;
    this.#mayRead = mayRead;
  }

  /** True if the attempt ended because there was no memory to go on. */
  get hasOutgrown(): boolean {
    return this.#hasOutgrown;
  }

  /** Opens a snapshot that ends with `run.released` instead of reading more than there is memory for. */
  async open(
    source: Pick<Source, 'openSmall'>,
    request: SourceRequest,
    signal: AbortSignal,
    position?: string | null,
    server?: string | null,
  ): Promise<SourceSnapshot> {
    const maxBytes = Math.min(this.#mayRead, mostRead);
    const snapshot = await source.openSmall(request, signal, maxBytes, position, server);
    return readThrough(snapshot, (inner) => (slice, of) => this.#count(inner.read(slice, of)));
  }

  /** Returns the destination with the same limit for what is read of its files. */
  at(destination: Destination): Destination {
    return boundedDestination(destination, (bytes) => this.#take(bytes));
  }

  async *#count(blocks: AsyncIterable<RowBlock>): AsyncGenerator<RowBlock> {
    for await (const block of blocks) {
      this.#take(block.bytes.length);
      yield block;
    }
  }

  #take(bytes: number): void {
    this.#mayRead -= bytes;
    if (this.#mayRead >= 0) return;
    if (!this.#slot.outgrow(this.#fullBytes)) {
      this.#hasOutgrown = true;
      throw new SluiceError('run.released');
    }
    this.#mayRead = Number.POSITIVE_INFINITY;
  }
}

/** Returns the destination, read only as far as `take` lets it: a store may answer with any number of bytes. */
export function boundedDestination(
  destination: Destination,
  take: (bytes: number) => void,
): Destination {
  const inherited: Destination = Object.create(destination);
  return Object.assign(inherited, {
    holds: take,
    async readFile(...request: Parameters<Destination['readFile']>) {
      const object = await destination.readFile(...request);
      return object && { ...object, body: counted(object.body, take) };
    },
  });
}

async function* counted(
  body: AsyncIterable<Uint8Array>,
  take: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const bytes of body) {
    take(bytes.length);
    yield bytes;
  }
}

/** Returns the snapshot with another way to read its rows: what `reads` makes of it. */
export function readThrough(
  snapshot: SourceSnapshot,
  reads: (snapshot: SourceSnapshot) => SourceSnapshot['read'],
): SourceSnapshot {
  const deletes = snapshot.readDeletes?.bind(snapshot);
  return {
    ...(deletes && { readDeletes: deletes }),
    columns: snapshot.columns,
    get totalCount() {
      return snapshot.totalCount;
    },
    snapshot: snapshot.snapshot,
    takenAt: snapshot.takenAt,
    sequence: snapshot.sequence,
    slices: snapshot.slices,
    projection: snapshot.projection,
    keyIndices: snapshot.keyIndices,
    typeChanges: snapshot.typeChanges,
    hasDays: snapshot.hasDays,
    showsKeys: snapshot.showsKeys,
    countRows: (signal) => snapshot.countRows(signal),
    keySet: () => snapshot.keySet(),
    readKeySet: (signal) => snapshot.readKeySet(signal),
    share: async (request, signal) => readThrough(await snapshot.share(request, signal), reads),
    close: () => snapshot.close(),
    read: reads(snapshot),
  };
}
