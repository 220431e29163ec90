import { type Look, nameOfSession } from './live-transactions.ts';
import { baseOf, type PendingName } from './pending.ts';

/** Maximum names that are remembered. */
const mostNames = 10_000;

/**
 * How long intervals have waited for what is open at one server, and which transactions only read. It saves later
 * intervals the same wait. A virtual id is that of one transaction, as long as the server is not started again.
 */
export class LongWaits {
  #serverStart = '';
  readonly #waitedMs = new Map<PendingName, number>();
  readonly #reading = new Set<string>();

  /** Whether an interval has waited for it for `ms`, at this start of the server. */
  isLong(name: PendingName, serverStart: string | null, ms: number): boolean {
    if (serverStart !== this.#serverStart) return false;
    return (this.#waitedMs.get(baseOf(name)) ?? -1) >= ms;
  }

  /** Notes that an interval has waited for these so long. */
  note(names: readonly PendingName[], { serverStart }: Look, ms: number): void {
    this.#begin(serverStart);
    for (const name of names.map(baseOf)) {
      this.#waitedMs.set(name, Math.max(ms, this.#waitedMs.get(name) ?? 0));
    }
  }

  /** Virtual ids of transactions whose role can write nothing, as `noteReading` noted them. */
  readingAt({ serverStart }: Look): ReadonlySet<string> {
    return serverStart === this.#serverStart ? this.#reading : new Set();
  }

  noteReading(virtualIds: readonly string[], { serverStart }: Look): void {
    this.#begin(serverStart);
    for (const id of virtualIds) this.#reading.add(id);
  }

  /** Forgets what has ended. */
  prune({ locks, sessions }: Look): void {
    if (this.#waitedMs.size + this.#reading.size === 0) return;
    const alive = new Set([...locks.map(({ id }) => id), ...sessions.map(nameOfSession)]);
    const hasEnded = (name: string) => !name.startsWith('prepared:') && !alive.has(name);
    for (const name of this.#waitedMs.keys()) if (hasEnded(name)) this.#waitedMs.delete(name);
    for (const id of this.#reading) if (hasEnded(id)) this.#reading.delete(id);
  }

  #begin(serverStart: string): void {
    const isFull = this.#waitedMs.size + this.#reading.size > mostNames;
    if (serverStart === this.#serverStart && !isFull) return;
    this.#serverStart = serverStart;
    this.#waitedMs.clear();
    this.#reading.clear();
  }
}
