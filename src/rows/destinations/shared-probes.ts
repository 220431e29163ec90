import type { StoreTraits } from '../../foundation/domain/store-traits.ts';
import { unlessAborted } from '../../foundation/domain/patience.ts';

/** The time that a result is shared. The copy of each export is valid much longer. */
const validMs = 10 * 60_000;

const maxKept = 1_000;

interface Kept {
  readonly traits: StoreTraits;
  readonly beganAt: number;
}

interface Running {
  readonly traits: Promise<StoreTraits>;
  readonly beganAt: number;
}

/**
 * Shares the results of probes with the other exports that use the same store with the same keys: a thousand exports that begin at the
 * same time must not probe one store a thousand times.
 */
export class SharedProbes {
  readonly #kept = new Map<string, Kept>();
  readonly #running = new Map<string, Running>();
  readonly #now: () => number;

  /** @param now monotonic, in milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Gives what a probe of the store found that began after the export was changed, or probes. An error is not
   * shared: who waited for that probe makes its own.
   *
   * @param store names the store and the keys
   * @param changedForMs how long ago the export was changed; who changes it may have changed the store too
   * @throws the reason of `signal`, and what `probe` throws
   */
  async find(
    store: string,
    changedForMs: number,
    probe: () => Promise<StoreTraits>,
    signal: AbortSignal,
  ): Promise<StoreTraits> {
    const changedAt = this.#now() - changedForMs;
    const running = this.#running.get(store);
    const isNew = running !== undefined && running.beganAt > changedAt;
    // Null if that probe failed.
    const shared = isNew
      ? await unlessAborted(
          running.traits.catch(() => null),
          signal,
        )
      : this.#read(store, changedAt);
    if (shared) return shared;
    const own = { traits: probe(), beganAt: this.#now() };
    this.#running.set(store, own);
    try {
      const traits = await own.traits;
      this.#keep(store, { traits, beganAt: own.beganAt });
      return traits;
    } finally {
      if (this.#running.get(store) === own) this.#running.delete(store);
    }
  }

  /** The store behaved differently. */
  forget(store: string): void {
    this.#kept.delete(store);
  }

  #read(store: string, changedAt: number): StoreTraits | null {
    const entry = this.#kept.get(store);
    if (entry === undefined || entry.beganAt <= changedAt) return null;
    return this.#now() - entry.beganAt < validMs ? entry.traits : null;
  }

  #keep(store: string, kept: Kept): void {
    this.#kept.delete(store);
    this.#kept.set(store, kept);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > maxKept && oldest !== undefined) this.#kept.delete(oldest);
  }
}
