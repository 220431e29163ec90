import { setTimeout as delay } from 'node:timers/promises';
import type { Source, SourceSnapshot } from '../sources/source.ts';
import { readThrough } from './read-through.ts';

/** So many bytes of a run are read without a turn: a small run never waits. */
const freeBytes = 4 * 2 ** 20;
/** Maximum wait for one turn. The run before may itself wait for memory that this one holds. */
const longestWaitMs = 2_000;

/**
 * Lets the long runs of an organization that crowds others read one at a time, block by block. The server of
 * the source stops as well: nothing takes its rows. Runs that were begun while it was alone go on like this.
 */
export class ReadingTurns {
  readonly #isCrowding: (organizationId: string) => boolean;
  readonly #longestWaitMs: number;
  /** The last turn of each organization that has one; it ends when the turn is over. */
  readonly #last = new Map<string, Promise<void>>();

  constructor(isCrowding: (organizationId: string) => boolean, waitMs = longestWaitMs) {
    this.#isCrowding = isCrowding;
    this.#longestWaitMs = waitMs;
  }

  /** The same source, whose snapshots read in turns. */
  of(organizationId: string, source: Source): Source {
    return {
      ...source,
      open: async (...asked) => {
        const snapshot = await source.open(...asked);
        return this.#inTurns(organizationId, snapshot);
      },
    };
  }

  #inTurns(organizationId: string, snapshot: SourceSnapshot): SourceSnapshot {
    let bytes = 0;
    const turns = this;
    return readThrough(snapshot, async function* (slice, signal) {
      const blocks = snapshot.read(slice, signal)[Symbol.asyncIterator]();
      try {
        for (;;) {
          const take = () => blocks.next();
          const isFree = bytes < freeBytes;
          const next = await (isFree ? take() : turns.take(organizationId, signal, take));
          if (next.done) return;
          bytes += next.value.bytes.length;
          yield next.value;
        }
      } finally {
        await blocks.return?.();
      }
    });
  }

  /**
   * Does `work` after the turns that the organization's other runs took before, if it crowds others now.
   *
   * @throws the signal's reason if it aborts during the wait
   */
  async take<T>(organizationId: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (!this.#isCrowding(organizationId)) return work();
    const before = this.#last.get(organizationId);
    let end = () => {};
    const turn = new Promise<void>((resolve) => {
      end = resolve;
    });
    const own = Promise.all([before, turn]).then(() => {});
    this.#last.set(organizationId, own);
    try {
      if (before) await this.#waitFor(before, signal);
      return await work();
    } finally {
      end();
      if (this.#last.get(organizationId) === own) this.#last.delete(organizationId);
    }
  }

  async #waitFor(before: Promise<void>, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const patience = AbortSignal.any([signal, over.signal]);
    const longest = delay(this.#longestWaitMs, undefined, { signal: patience }).catch(() => {});
    await Promise.race([before, longest]);
    over.abort();
    signal.throwIfAborted();
  }
}
