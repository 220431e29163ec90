import { setTimeout as delay } from 'node:timers/promises';
import type { SourceSnapshot } from '../../rows/sources/source.ts';
import { readThrough } from './small-run.ts';

/** So many bytes of a run are read without a turn: a small run never waits. */
const freeBytes = 4 * 2 ** 20;
/** Maximum wait for one turn. The run before may itself wait for memory that this one holds. */
const longestWaitMs = 2_000;
const longestRestMs = 1_000;

interface TurnOptions {
  /** True if an organization must leave room to others now. */
  readonly isCrowding: (organizationId: string) => boolean;
  /** True if it crowds others and used the most lately: then it rests between its turns; default: no. */
  readonly mustRest?: (organizationId: string) => boolean;
  /** Such an organization rests so many times as long as it worked; default: 1. */
  readonly restShare?: () => number;
  /** Time of processors that this process has used, in ms; default: none. */
  readonly cpuMs?: () => number;
  readonly waitMs?: number;
  /** Waits; an abort ends it early. */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<void>;
  /** A clock in ms that never goes back. */
  readonly now?: () => number;
}

/**
 * Lets the long runs of an organization that crowds others read one at a time, block by block. The server of
 * the source stops as well: nothing takes its rows. Runs that were begun while it was alone go on like this. If
 * the organization must rest, its small runs execute one at a time too, and each turn begins after a rest,
 * which depends on its part of what the processors did during the turn before.
 */
export class ReadingTurns {
  readonly #options: Required<TurnOptions>;
  /** The last turn of each lane that has one; it ends when the turn is over. */
  readonly #last = new Map<string, Promise<void>>();
  readonly #restEnds = new Map<string, number>();
  #executing = 0;

  constructor(options: TurnOptions) {
    this.#options = {
      mustRest: () => false,
      restShare: () => 1,
      cpuMs: () => 0,
      waitMs: longestWaitMs,
      wait: pause,
      now: () => performance.now(),
      ...options,
    };
  }

  /** Waits until a small run may begin, and before it those of an organization that must rest. @returns ends it */
  async enter(organizationId: string, signal: AbortSignal): Promise<() => void> {
    const { isCrowding, mustRest, cpuMs } = this.#options;
    const inTurn = isCrowding(organizationId) && mustRest(organizationId);
    const end = inTurn ? await this.#begin(organizationId, 'run', signal) : () => {};
    const before = cpuMs();
    this.#executing += 1;
    return () => {
      // The others took their part of it.
      this.#noteWork(organizationId, (cpuMs() - before) / this.#executing);
      this.#executing -= 1;
      end();
    };
  }

  /** Returns the snapshot with another way to read its blocks: in turns. */
  readIn(organizationId: string, snapshot: SourceSnapshot): SourceSnapshot {
    let bytes = 0;
    const turns = this;
    const { cpuMs } = this.#options;
    const reads = (inner: SourceSnapshot): SourceSnapshot['read'] =>
      async function* (slice, signal) {
        const blocks = inner.read(slice, signal)[Symbol.asyncIterator]();
        try {
          for (;;) {
            const isFree = bytes < freeBytes;
            const end = isFree ? () => {} : await turns.#begin(organizationId, 'read', signal);
            const before = cpuMs();
            const next = await blocks.next().finally(end);
            if (next.done) return;
            bytes += next.value.bytes.length;
            yield next.value;
            // To process a block takes longer than to read it.
            turns.#noteWork(organizationId, cpuMs() - before);
          }
        } finally {
          await blocks.return?.();
        }
      };
    return readThrough(snapshot, reads);
  }

  #noteWork(organizationId: string, workMs: number): void {
    const now = this.#options.now();
    for (const [id, end] of this.#restEnds) if (end <= now) this.#restEnds.delete(id);
    const restMs = Math.min(workMs * this.#options.restShare(), longestRestMs);
    const end = Math.max(now + restMs, this.#restEnds.get(organizationId) ?? 0);
    if (end > now) this.#restEnds.set(organizationId, end);
  }

  /** Waits for the turns that others took in the same lane before, if the organization crowds others now. @returns ends it */
  async #begin(
    organizationId: string,
    kind: 'read' | 'run',
    signal: AbortSignal,
  ): Promise<() => void> {
    const { isCrowding, mustRest, wait, now } = this.#options;
    if (!isCrowding(organizationId)) return () => {};
    const lane = `${kind} ${organizationId}`;
    const before = this.#last.get(lane);
    let resolveTurn = () => {};
    const turn = new Promise<void>((resolve) => {
      resolveTurn = resolve;
    });
    const own = Promise.all([before, turn]).then(() => {});
    this.#last.set(lane, own);
    const end = () => {
      resolveTurn();
      if (this.#last.get(lane) === own) this.#last.delete(lane);
    };
    try {
      if (before) await this.#waitFor(before, signal);
      const restMs = (this.#restEnds.get(organizationId) ?? 0) - now();
      if (restMs > 0 && mustRest(organizationId)) {
        await wait(restMs, signal);
        signal.throwIfAborted();
      }
      return end;
    } catch (error) {
      end();
      throw error;
    }
  }

  async #waitFor(before: Promise<void>, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const patience = AbortSignal.any([signal, over.signal]);
    await Promise.race([before, pause(this.#options.waitMs, patience)]);
    over.abort();
    signal.throwIfAborted();
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => {});
}

/** The time for which an organization counts as active after its last run. */
const activeMs = 10_000;

/** Which organizations were active lately. On a busy machine those with company get fewer slots, and read in turns. */
export class Crowd {
  readonly #seen = new Map<string, number>();
  readonly #isPressed: () => boolean;
  readonly #now: () => number;

  /**
   * @param isPressed whether processors have too much to do
   * @param now a clock in ms that never goes back
   */
  constructor(isPressed: () => boolean, now: () => number) {
    this.#isPressed = isPressed;
    this.#now = now;
  }

  /** Notes organizations whose runs wait or execute. */
  see(organizationIds: Iterable<string>): void {
    const now = this.#now();
    for (const id of organizationIds) this.#seen.set(id, now);
    for (const [id, at] of this.#seen) if (now - at > activeMs) this.#seen.delete(id);
  }

  /** Says whether the organization must leave room to others now. */
  isCrowding(organizationId: string): boolean {
    return this.#isPressed() && this.companyOf(organizationId).length > 0;
  }

  /** The organizations that are active, if those that have company must leave room now; otherwise null. */
  company(): readonly string[] | null {
    return this.#isPressed() ? this.#active() : null;
  }

  /** The other organizations that are active. */
  companyOf(organizationId: string): readonly string[] {
    return this.#active().filter((id) => id !== organizationId);
  }

  #active(): readonly string[] {
    const since = this.#now() - activeMs;
    return [...this.#seen].flatMap(([id, at]) => (at >= since ? [id] : []));
  }
}
