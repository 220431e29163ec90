import {
  type DataInterval,
  type Instant,
  isEarlier,
  type Moment,
} from '../../../foundation/domain/time.ts';
import type { Look } from './live-transactions.ts';
import { baseOf, type Live, type PendingName } from './pending.ts';

/** How long a proof counts for other intervals. Within it the server's clock is taken to go on. */
const freshMs = 1_000;
/** A proof of this age is found once more, if it is still used. Shortly after an interval's end that takes a poll and some looks. */
const agingMs = freshMs / 2;
/** Maximum names of late transactions that are kept. */
const mostLate = 10_000;

/** That no transaction has a `now()` before `end`, but those that are prepared. */
interface Proof {
  readonly end: Instant;
  /** When it was found, by as many looks as that takes. */
  readonly at: number;
  readonly serverStart: string;
  /** Everything that was open at this time has ended, but those that are prepared. */
  readonly lookedFrom: Moment;
  /** The server's own clock then: unlike ours, it goes on while our machine is paused. */
  readonly nowMs: number;
  readonly newestPreparedMs: number;
}

/** What intervals of one server may learn from those that settled before. */
export class SettleMemory {
  #proof: Proof | null = null;
  #serverStart = '';
  #isRenewing = false;
  readonly #late = new Set<string>();
  readonly #now: () => number;

  /** @param now a clock in ms that never goes back */
  constructor(now = () => performance.now()) {
    this.#now = now;
  }

  /**
   * The server at which the interval settled with one that ends later, a moment ago: no transaction has a `now()` before
   * that end. Transactions that were prepared in between could still add rows.
   *
   * @param requestedAt what was seen before it does not count: a transaction that was open when the rows were
   *   asked for may write rows with any time
   * @returns the start of the server at which it settled; null if that is not known. Behind a pooler, the next look may be
   *   at another one
   */
  settledAt({ start, end }: DataInterval, requestedAt: Moment): string | null {
    const known = this.#fresh();
    if (known === null || isEarlier(known.lookedFrom, requestedAt)) return null;
    return end <= known.end && known.newestPreparedMs < start ? known.serverStart : null;
  }

  /**
   * Whether it is known since a moment ago that no transaction has a `now()` before the end, but those that are
   * prepared: a wait need not find that out, only what else is open.
   */
  isPast(end: Instant, { serverStart, nowMs }: Look): boolean {
    const known = this.#fresh();
    if (known === null || Math.abs(nowMs - known.nowMs) > freshMs) return false;
    return end <= known.end && known.serverStart === serverStart;
  }

  /**
   * After a wait that relied on `isPast`, or else found all of it out.
   *
   * @param end up to which it has proven that; null if it relied on `isPast`
   * @param live the last look
   * @param lookedFrom when the first look was asked for
   */
  noteSettled(
    end: Instant | null,
    { prepared, nowMs }: Live,
    lookedFrom: Moment,
    { serverStart }: Look,
  ): void {
    const known = this.#fresh();
    const times = [...prepared.values()].map(({ preparedAtMs }) => preparedAtMs);
    const found = { newestPreparedMs: Math.max(...times, -Infinity), lookedFrom };
    if (known !== null && (end === null || known.end > end)) {
      // What it was known by stays as old as it is.
      if (known.serverStart === serverStart && !isEarlier(lookedFrom, known.lookedFrom))
        this.#proof = { ...known, ...found };
      return;
    }
    if (end !== null) this.#proof = { end, at: this.#now(), nowMs, serverStart, ...found };
  }

  #fresh(): Proof | null {
    const known = this.#proof;
    return known === null || this.#now() - known.at > freshMs ? null : known;
  }

  /**
   * Finds a proof once more that will soon be too old, one at a time.
   *
   * @param prove up to which end
   */
  async renew(prove: (end: Instant) => Promise<unknown>): Promise<void> {
    const known = this.#fresh();
    if (known === null || this.#now() - known.at < agingMs || this.#isRenewing) return;
    this.#isRenewing = true;
    await prove(known.end).finally(() => {
      this.#isRenewing = false;
    });
  }

  /** The connection was lost: another server may answer next. */
  forgetSettled(): void {
    this.#proof = null;
  }

  /** Whether a transaction was waited for as long as anything is, at this start of the server. */
  isLate(name: PendingName, { serverStart }: Look): boolean {
    return serverStart === this.#serverStart && this.#late.has(baseOf(name));
  }

  /** Remembers what was waited for in vain, as long as it is alive. */
  noteLate(names: readonly PendingName[], look: Look): void {
    if (look.serverStart !== this.#serverStart || this.#late.size > mostLate) this.#late.clear();
    this.#serverStart = look.serverStart;
    for (const name of names) this.#late.add(baseOf(name));
  }

  /** Forgets late transactions that have ended. */
  prune(look: Look): void {
    if (this.#late.size === 0) return;
    const alive = new Set([
      ...look.locks.map(({ id }) => id),
      ...look.sessions.map(({ pid, startedAt }) => `session:${pid}:${startedAt}`),
    ]);
    for (const name of this.#late) {
      if (!name.startsWith('prepared:') && !alive.has(name)) this.#late.delete(name);
    }
  }
}
