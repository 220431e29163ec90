import type { DataInterval } from '../../domain/time.ts';
import type { Look } from './live-transactions.ts';
import { baseOf, type Live, type PendingName } from './pending.ts';

/** How long an interval counts as settled for others. Within it the server's clock is taken to go on. */
const freshMs = 1_000;
/** Maximum names of late transactions that are kept. */
const mostLate = 10_000;

/** What intervals of one server may learn from those that settled before. */
export class SettleMemory {
  #settled:
    | (DataInterval & {
        readonly newestPreparedMs: number;
        readonly at: number;
        readonly lookedFrom: number;
      })
    | null = null;
  #serverStart = '';
  readonly #late = new Set<string>();
  readonly #now: () => number;

  /** @param now a clock in ms that never goes back */
  constructor(now = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Whether the interval settled with one that ends later, a moment ago: no transaction has a `now()` before
   * that end. Transactions that were prepared in between could still add rows.
   *
   * @param requestedAt what was seen before it does not count: a transaction that was open when the rows were
   *   asked for may write rows with any time
   */
  covers({ start, end }: DataInterval, requestedAt: number): boolean {
    const known = this.#settled;
    if (known === null || this.#now() - known.at > freshMs) return false;
    return known.lookedFrom >= requestedAt && end <= known.end && known.newestPreparedMs < start;
  }

  /**
   * @param live the last look
   * @param lookedFrom when the first look was asked for
   */
  noteSettled(interval: DataInterval, { prepared }: Live, lookedFrom: number): void {
    const at = this.#now();
    const known = this.#settled;
    if (known !== null && known.end > interval.end && at - known.at <= freshMs) return;
    const times = [...prepared.values()].map(({ preparedAtMs }) => preparedAtMs);
    const newestPreparedMs = Math.max(...times, -Infinity);
    this.#settled = { ...interval, newestPreparedMs, at, lookedFrom };
  }

  /** The connection was lost: another server may answer next. */
  forgetSettled(): void {
    this.#settled = null;
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
