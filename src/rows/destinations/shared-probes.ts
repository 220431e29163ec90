import type { StoreTraits } from '../../foundation/domain/store-traits.ts';
import { unlessAborted } from '../../foundation/domain/patience.ts';

/** The time that a result is shared. The copy of each export is valid much longer. */
const validMs = 10 * 60_000;

const maxKept = 1_000;

interface Probe {
  readonly traits: Promise<StoreTraits>;
  readonly beganAt: number;
}

/** Shares probes among exports with one store and keys: a thousand that begin together must not probe it a thousand times. */
export class SharedProbes {
  readonly #probes = new Map<string, Probe>();
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
   */
  async find(
    store: string,
    changedForMs: number,
    probe: () => Promise<StoreTraits>,
    signal: AbortSignal,
  ): Promise<StoreTraits> {
    const now = this.#now();
    const before = this.#probes.get(store);
    const isShared =
      before && before.beganAt > now - changedForMs && now - before.beganAt < validMs;
    // Null if that probe failed.
    const failed = () => null;
    const shared = isShared ? await unlessAborted(before.traits.catch(failed), signal) : null;
    if (shared) return shared;
    const own = { traits: probe(), beganAt: this.#now() };
    this.#keep(store, own);
    try {
      return await own.traits;
    } catch (error) {
      if (this.#probes.get(store) === own) this.#probes.delete(store);
      throw error;
    }
  }

  /** The store behaved differently. */
  forget(store: string): void {
    this.#probes.delete(store);
  }

  #keep(store: string, probe: Probe): void {
    this.#probes.delete(store);
    this.#probes.set(store, probe);
    const [oldest] = this.#probes.keys();
    if (this.#probes.size > maxKept && oldest !== undefined) this.#probes.delete(oldest);
  }
}
