import type { StoreTraits } from '../domain/store-traits.ts';

/** How long a result is shared: what is kept with each export is valid much longer. */
const validMs = 10 * 60_000;

const maxKept = 1_000;

interface Kept {
  readonly traits: StoreTraits;
  /** By the monotonic clock. */
  readonly until: number;
}

/**
 * What probes found, for the other exports of a project that use the same store with the same keys: a
 * thousand exports that begin at the same time must not probe one store a thousand times.
 */
export class SharedProbes {
  readonly #kept = new Map<string, Kept>();
  readonly #running = new Map<string, Promise<StoreTraits>>();
  readonly #now: () => number;

  /** @param now monotonic, in milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Gives what a probe of the store found, or probes. An error is not shared: who waited for that probe
   * makes its own.
   *
   * @param store names the store, the keys and the project
   * @throws the reason of `signal`, and what `probe` throws
   */
  async find(
    store: string,
    probe: () => Promise<StoreTraits>,
    signal: AbortSignal,
  ): Promise<StoreTraits> {
    const running = this.#running.get(store);
    const shared = running ? await orAborted(running, signal) : this.#read(store);
    if (shared) return shared;
    const own = probe();
    const isFirst = !this.#running.has(store);
    if (isFirst) this.#running.set(store, own);
    try {
      const traits = await own;
      this.#keep(store, traits);
      return traits;
    } finally {
      if (isFirst) this.#running.delete(store);
    }
  }

  /** The store behaved differently. */
  forget(store: string): void {
    this.#kept.delete(store);
  }

  #read(store: string): StoreTraits | null {
    const kept = this.#kept.get(store);
    if (kept && kept.until > this.#now()) return kept.traits;
    this.#kept.delete(store);
    return null;
  }

  #keep(store: string, traits: StoreTraits): void {
    this.#kept.delete(store);
    this.#kept.set(store, { traits, until: this.#now() + validMs });
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > maxKept && oldest !== undefined) this.#kept.delete(oldest);
  }
}

/** @returns null if it failed */
async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | null> {
  signal.throwIfAborted();
  let stop = () => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([work.catch(() => null), aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
