import { getHeapSpaceStatistics, getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Tunes V8's collector for a worker, whose garbage is buffers: a kilobyte of its heap is a megabyte outside of it.
 * Call it before anything else is loaded: loading makes the young generation grow. The old generation counts buffers
 * against a limit that follows its own small size. At two and a half times that size a row group or a part triggers no
 * full collection: 8 instead of 19 for 400,000 rows to Parquet + zstd (`--trace-gc`).
 */
export function tuneGarbageCollection(): void {
  growYoungGeneration();
  setFlagsFromString('--heap-growing-percent=150');
}

/** The size of each half before a run of many rows. V8 begins with 1. */
const halfMebibytes = 4;

/** The size of each half before small runs: many are in progress. 2,400 runs of 100 rows had 104 collections, not 446. */
const halfMebibytesOfSmallRuns = 8;

export const growForSmallRuns = (): void => growYoungGeneration(halfMebibytesOfSmallRuns);

/**
 * Gives the young generation so many megabytes for each half, unless it has them. Takes about 15 ms. Call it before a
 * run of many rows: V8 takes three of them back when the SQL parser is loaded, and when the process was idle. With one
 * megabyte buffers in use often survive two collections. These count as old, and V8 frees what is old only once there
 * are 64 MiB more of it. Two million rows to Parquet + zstd took 177 MiB with four megabytes, 207 with one.
 */
export function growYoungGeneration(mebibytes = halfMebibytes): void {
  const wantedBytes = 2 * mebibytes * 1024 ** 2;
  if (youngSpaceBytes() >= wantedBytes) return;
  const collect = exposeCollector();
  setFlagsFromString('--semi-space-growth-factor=2');
  for (let tried = 0; tried < 10 && youngSpaceBytes() < wantedBytes; tried += 1) {
    const alive = Array.from({ length: 20_000 }, (_, n) => ({ n }));
    collect({ type: 'minor' });
    alive.length = 0;
  }
  // From here on it stays.
  setFlagsFromString('--semi-space-growth-factor=1');
}

function youngSpaceBytes(): number {
  const space = getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space');
  return space?.space_size ?? Number.POSITIVE_INFINITY;
}

/** Frees unused buffers at once, in tens of milliseconds. V8 waits until there are many: too late after a large row. */
export const freeBuffers: () => void = exposeCollector();

function exposeCollector(): (options?: { readonly type: 'minor' }) => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as (options?: { readonly type: 'minor' }) => void;
}

const sampleMs = 250;
/** Samples of a window. Their least leaves out what the next small collection frees. */
const samplesPerWindow = 20;
const mostGrowthBytes = 8 * 1024 ** 2;

/** Decides when buffers are to be freed, from how many bytes there are outside of V8's heap. */
export class BufferWatch {
  #floor = Number.POSITIVE_INFINITY;
  #least = Number.POSITIVE_INFINITY;
  #samples = 0;

  /** @returns whether the least of a window is 8 MiB above that of an earlier one, or above what was left last time */
  note(bytes: number): boolean {
    this.#least = Math.min(this.#least, bytes);
    this.#samples += 1;
    if (this.#samples < samplesPerWindow) return false;
    const hasGrown = this.#least - this.#floor > mostGrowthBytes;
    this.#floor = Math.min(this.#floor, this.#least);
    this.#least = Number.POSITIVE_INFINITY;
    this.#samples = 0;
    return hasGrown;
  }

  noteFreed(bytes: number): void {
    this.#floor = bytes;
  }
}

const outside = (): number => getHeapStatistics().external_memory;

/**
 * Frees buffers that nothing uses any more each time that they have grown by 8 MiB, once in five seconds at most. V8
 * itself waits for 64 MiB. 10 million rows to Parquet + zstd took 177 MiB instead of 194, in the same time (`npm run
 * test:big`). @returns ends it
 */
export function watchBuffers(): () => void {
  const watch = new BufferWatch();
  const timer = setInterval(() => {
    if (!watch.note(outside())) return;
    freeBuffers();
    watch.noteFreed(outside());
  }, sampleMs);
  timer.unref();
  return () => clearInterval(timer);
}
