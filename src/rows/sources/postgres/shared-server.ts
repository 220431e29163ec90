import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { unlessAborted } from '../../../foundation/domain/patience.ts';
import { closeConnection, destroyConnection, keepsAlive } from './connection.ts';
import { toSourceError } from './errors.ts';
import { type Look, readLook, nameOfSession } from './live-transactions.ts';
import { baseOf, type PendingName } from './pending.ts';

export interface SharedServerOptions {
  readonly connect: (signal: AbortSignal) => Promise<pg.Client>;
  /** The longest pause between two looks of those that wait. */
  readonly pollMs: number;
  /** The time that the connection stays open after the last use. */
  readonly keepMs: number;
  readonly patienceMs: number;
  readonly onLook: () => void;
}

/** The shortest time between the starts of two looks: in a burst of runs more of them share one. */
const betweenLooksMs = 20;

/** Intervals that settle at once share its looks. An abort ends one of them; a lost connection fails all. */
export class SharedServer {
  readonly #options: SharedServerOptions;
  readonly longWaits = new LongWaits();
  #client: Promise<pg.Client> | null = null;
  /** True if the connection has served one of those that use it now. */
  #isProven = false;
  #users = 0;
  #serverStart: string | null = null;
  #failures = 0;
  #failure: unknown;
  #closing: NodeJS.Timeout | null = null;
  #next: Promise<Look> | null = null;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #last: Promise<unknown> = Promise.resolve();
  #beat: Promise<unknown> | null = null;

  constructor(options: SharedServerOptions) {
    this.#options = options;
  }

  /** Keeps the connection open, once there is one, until `work` has ended. */
  async hold<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing) clearTimeout(this.#closing);
    this.#closing = null;
    this.#users += 1;
    this.#client?.then((client) => keepsAlive(client, true)).catch(() => {});
    try {
      return await work();
    } finally {
      this.#users -= 1;
      if (this.#users === 0) this.#rest();
    }
  }

  /** A look that begins after the call. All that ask before it begins get the same. */
  look(signal: AbortSignal): Promise<Look> {
    if (this.#next === null) {
      const look = this.#last
        .then(() => this.#rhythm())
        .then(() => {
          this.#next = null;
          this.#lookedAt = performance.now();
          this.#options.onLook();
          return this.#run(readLook);
        })
        .then((seen) => {
          this.#serverStart = seen.isStandby ? null : seen.serverStart;
          this.longWaits.prune(seen);
          return seen;
        });
      this.#next = look;
      this.#last = look.catch(() => {});
    }
    return unlessAborted(this.#next, signal);
  }

  async #rhythm(): Promise<void> {
    const restMs = this.#lookedAt + betweenLooksMs - performance.now();
    await (restMs > 0 ? delay(restMs) : setImmediate());
  }

  use<T>(
    signal: AbortSignal,
    work: (client: pg.Client, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const failures = this.#failures;
    const done = this.#last.then(() => {
      // Callers that waited behind a failure fail with it, and do not wait for another time-out.
      if (this.#failures !== failures) throw this.#failure;
      return this.#run(work);
    });
    this.#last = done.catch(() => {});
    return unlessAborted(done, signal);
  }

  /** A pause that all have in common: it ends when the one that began first ends. */
  pause(signal: AbortSignal): Promise<unknown> {
    this.#beat ??= delay(this.#options.pollMs).then(() => {
      this.#beat = null;
    });
    return unlessAborted(this.#beat, signal);
  }

  /** When the server of the last look was started; null if it was a standby, or not known. */
  get serverStart(): string | null {
    return this.#serverStart;
  }

  get hasBeat(): boolean {
    return this.#beat !== null;
  }

  /** Only a connection that was idle may be replaced: no interval that settles has learnt anything from it. */
  async #run<T>(work: (client: pg.Client, signal: AbortSignal) => Promise<T>): Promise<T> {
    const before = this.#client;
    const mayReplace = before !== null && !this.#isProven;
    try {
      return await this.#attempt(work);
    } catch (error) {
      if (mayReplace && toSourceError(error).code === 'source.unavailable') {
        return this.#attempt(work);
      }
      this.#failures += 1;
      this.#failure = error;
      throw error;
    }
  }

  async #attempt<T>(work: (client: pg.Client, signal: AbortSignal) => Promise<T>): Promise<T> {
    const patience = new AbortController();
    const timer = setTimeout(
      () => patience.abort(new SluiceError('source.timeout')),
      this.#options.patienceMs,
    );
    this.#client ??= this.#connect(patience.signal);
    const connecting = this.#client;
    try {
      const done = await work(await connecting, patience.signal);
      this.#isProven = true;
      return done;
    } catch (error) {
      this.#drop(connecting);
      connecting.then(destroyConnection, () => {});
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  #connect(signal: AbortSignal): Promise<pg.Client> {
    const connecting = this.#options.connect(signal);
    connecting.then(
      (client) => client.once('end', () => this.#drop(connecting)),
      () => {},
    );
    return connecting;
  }

  #drop(connecting: Promise<pg.Client>): void {
    if (this.#client === connecting) this.#client = null;
  }

  #rest(): void {
    this.#isProven = false;
    const { keepMs } = this.#options;
    if (keepMs === 0) {
      void this.#close();
      return;
    }
    this.#client?.then((client) => keepsAlive(client, false)).catch(() => {});
    this.#closing = setTimeout(() => void this.#close(), keepMs).unref();
  }

  async #close(): Promise<void> {
    const client = this.#client;
    this.#client = null;
    const open = await client?.catch(() => null);
    if (open) await closeConnection(open);
  }
}

const mostNames = 10_000;

/** It saves later intervals the same wait. A virtual id is that of one transaction until the server starts again. */
export class LongWaits {
  #serverStart = '';
  readonly #waitedMs = new Map<PendingName, number>();
  readonly #reading = new Set<string>();

  /** Says whether an interval has waited for it for `ms`, at this start of the server. */
  isLong(name: PendingName, serverStart: string | null, ms: number): boolean {
    if (serverStart !== this.#serverStart) return false;
    return (this.#waitedMs.get(baseOf(name)) ?? -1) >= ms;
  }

  note(names: readonly PendingName[], { serverStart }: Look, ms: number): void {
    this.#begin(serverStart);
    for (const name of names.map(baseOf)) {
      this.#waitedMs.set(name, Math.max(ms, this.#waitedMs.get(name) ?? 0));
    }
  }

  readingAt({ serverStart }: Look): ReadonlySet<string> {
    return serverStart === this.#serverStart ? this.#reading : new Set();
  }

  noteReading(virtualIds: readonly string[], { serverStart }: Look): void {
    this.#begin(serverStart);
    for (const id of virtualIds) this.#reading.add(id);
  }

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
