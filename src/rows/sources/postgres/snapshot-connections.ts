import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { type Instant, toTimestamp } from '../../../foundation/domain/time.ts';
import type { SourceRequest } from '../source.ts';
import {
  closeConnection,
  type ConnectionOptions,
  destroyConnection,
  keepsAlive,
} from './connection.ts';
import type { PlanSelect } from './plan.ts';
import { queryServer } from './own-statement.ts';
import type { SharedServer } from './shared-server.ts';

/** A transaction that reads no rows of an export needs these alone. */
export interface TransactionOptions extends ConnectionOptions {
  readonly statementTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** Of a server that has nothing to do; default 150 seconds: a pooler may wait 120 for a server. */
  readonly silenceMs?: number;
  /** Where the connections of snapshots come from and go to; default: a new one each. */
  readonly kept?: KeptConnections;
  /** It returns what ends the watch; default: the snapshot is not watched. */
  readonly watchHeld?: (sessions: HeldSessions) => () => void;
  /** The start of the server that settled last; null if it is not known. */
  readonly settledAt?: () => string | null;
}

export interface SnapshotOptions extends TransactionOptions {
  readonly blockBytes: number;
  /** A larger row is refused before it is held, and so is a larger field. */
  readonly maxRowBytes: number;
  /** Waits until a row of a few MiB or more may be held; returns what to call once it is not. It throws on abort. */
  readonly holdRow?: (bytes: number, signal: AbortSignal) => Promise<() => void>;
  readonly sliceMs: number;
  /** Gets the models whose reads a standby has ended. */
  readonly conflicts?: { note(model: string): void };
  /** Names who is at fault for a failed read: `findCulprit`, whose searches open snapshots too. */
  readonly culpritOf: (
    error: unknown,
    planned: PlannedRequest,
    signal: AbortSignal,
  ) => Promise<SluiceError>;
  /** Gets the models with views over tables that have policies. */
  readonly guardedViews?: Set<string>;
}

export interface PlannedRequest {
  readonly options: SnapshotOptions;
  /** Makes the SQL of the request. */
  readonly plan: PlanSelect;
  readonly request: SourceRequest;
}

/** The server at which an interval settled: its rows are read there, or at a standby that has them all. */
export interface SettledAt {
  /** The position that a standby must have replayed before; one address may lead to several standbys. */
  readonly position: string | null;
  /** The start of the server that was waited for; null if it is not known, or is not the one that is read. */
  readonly server: string | null;
}

export const nowhere: SettledAt = { position: null, server: null };

/** Its own snapshot, or an exported one. */
export type View = SettledAt | { readonly snapshot: string; readonly server: string };

/**
 * The clock may have been set back. What a standby has replayed was written after the end by its primary's clock.
 * @throws SluiceError `source.unavailable` if the interval has not ended by the clock of the rows' server
 */
export function refuseEarly(takenAt: Instant, settled: View, { interval }: SourceRequest): void {
  if ('snapshot' in settled || settled.position !== null || takenAt >= interval.end) return;
  const detail = `its clock says that the interval has not ended: ${toTimestamp(takenAt)}`;
  throw new SluiceError('source.unavailable', detail);
}

/** The connections of a snapshot: parallel reads get their own, which share it. */
export class SnapshotConnections {
  readonly #open: (signal: AbortSignal) => Promise<OpenSession>;
  readonly #kept: KeptConnections | undefined;
  readonly #pids = new Map<pg.Client, number>();
  readonly #idle: pg.Client[];
  readonly #endWatch: () => void;
  readonly #closed = new AbortController();
  /** Ends a count that nothing waits for. */
  readonly closed = this.#closed.signal;
  /** Why the connections were given up; null if they were not. */
  excess: SluiceError | null = null;

  /** @param open opens another one */
  constructor(
    first: OpenSession,
    { kept, watchHeld = () => () => {} }: TransactionOptions,
    open: (signal: AbortSignal) => Promise<OpenSession>,
  ) {
    this.#open = open;
    this.#kept = kept;
    this.#pids.set(first.client, first.pid);
    this.#idle = [first.client];
    this.#endWatch = watchHeld({
      pids: () => [...this.#pids.values()],
      onExcess: (error) => this.#release(error),
    });
  }

  /** Ends the transactions at once. Rows that are still to be read fail with the error. */
  #release(error: SluiceError): void {
    this.excess = error;
    this.#closed.abort(error);
    this.#idle.length = 0;
    for (const client of this.#pids.keys()) destroyConnection(client);
    this.#pids.clear();
  }

  async acquire(signal: AbortSignal): Promise<pg.Client> {
    return this.#idle.pop() ?? this.open(signal);
  }

  async open(signal: AbortSignal): Promise<pg.Client> {
    if (this.excess) throw this.excess;
    const { client, pid } = await this.#open(signal);
    this.#pids.set(client, pid);
    return client;
  }

  giveBack(client: pg.Client): void {
    this.#idle.push(client);
  }

  drop(client: pg.Client): void {
    this.#pids.delete(client);
    destroyConnection(client);
  }

  async end(client: pg.Client): Promise<void> {
    this.#pids.delete(client);
    await closeConnection(client);
  }

  async close(): Promise<void> {
    this.#endWatch();
    this.#closed.abort();
    const busy = [...this.#pids.keys()].filter((client) => !this.#idle.includes(client));
    const idle = this.#idle.splice(0);
    this.#pids.clear();
    await Promise.all([
      ...busy.map(closeConnection),
      ...idle.map((client) => this.#kept?.give(client) ?? closeConnection(client)),
    ]);
  }
}

interface OpenSession {
  readonly client: pg.Client;
  readonly pid: number;
}

/** Maximum time of a COMMIT that has nothing to write. */
const commitMs = 2_000;

/** Open for a while for those that come next, without a transaction. */
export class KeptConnections {
  readonly #keepMs: number;
  readonly #most: number;
  readonly #idle = new Map<pg.Client, NodeJS.Timeout>();
  readonly #watched = new WeakSet<pg.Client>();

  /** @param keepMs how long one stays open without use; 0: none is kept */
  constructor(keepMs: number, most: number) {
    this.#keepMs = keepMs;
    this.#most = most;
  }

  /** The one that was used last. Its server may have closed it. */
  take(): pg.Client | null {
    const [client, timer] = [...this.#idle].at(-1) ?? [];
    if (!client) return null;
    clearTimeout(timer);
    this.#idle.delete(client);
    keepsAlive(client, true);
    return client;
  }

  async give(client: pg.Client): Promise<void> {
    if (this.#keepMs === 0 || this.#idle.size >= this.#most) return closeConnection(client);
    const cut = setTimeout(() => destroyConnection(client), commitMs);
    try {
      await client.query('COMMIT');
    } catch {
      return destroyConnection(client);
    } finally {
      clearTimeout(cut);
    }
    const close = () => {
      this.#idle.delete(client);
      void closeConnection(client);
    };
    keepsAlive(client, false);
    this.#idle.set(client, setTimeout(close, this.#keepMs).unref());
    if (this.#watched.has(client)) return;
    this.#watched.add(client);
    client.once('end', () => {
      clearTimeout(this.#idle.get(client));
      this.#idle.delete(client);
    });
  }
}

export interface HoldLimits {
  /** The time that a session may wait for a table that the snapshot has locked. */
  readonly lockWaitMs: number;
  /** Its server removes no row that is newer. */
  readonly snapshotMs: number;
}

export interface HeldSessions {
  readonly pids: () => readonly number[];
  readonly onExcess: (error: SluiceError) => void;
}

/** Without a reason of ours each abort makes one, with a stack. */
const over = new Error('the snapshot has ended');

/**
 * ALTER TABLE waits for the lock of a reader, and every later statement of the application waits behind it. So the
 * snapshot ends if somebody has waited for too long, however slow its destination is. @returns ends the watch
 */
export function watchHeldLocks(
  server: SharedServer,
  { lockWaitMs, snapshotMs }: HoldLimits,
  { pids, onExcess }: HeldSessions,
): () => void {
  const started = performance.now();
  const stopped = new AbortController();
  const pauseMs = Math.max(50, Math.min(1_000, lockWaitMs / 3));
  const look = async () => {
    const ageMs = performance.now() - started;
    if (ageMs >= snapshotMs) return onExcess(tooOld(ageMs));
    const waitedMs = await server
      .hold(() => server.use(stopped.signal, (client, signal) => readWait(client, pids(), signal)))
      // Readers report what is wrong with the server.
      .catch(() => 0);
    if (stopped.signal.aborted) return;
    if (waitedMs >= lockWaitMs) onExcess(waitedFor(waitedMs));
    else timer = setTimeout(look, pauseMs).unref();
  };
  // A short run never looks.
  let timer = setTimeout(look, pauseMs).unref();
  return () => {
    clearTimeout(timer);
    stopped.abort(over);
  };
}

const seconds = (ms: number) => `${Math.round(ms / 1_000)} seconds`;

const waitedFor = (ms: number) =>
  new SluiceError('source.lock_released', `another session had waited for ${seconds(ms)}`);

const tooOld = (ms: number) =>
  new SluiceError('source.lock_released', `the run had held its snapshot for ${seconds(ms)}`);

/** In milliseconds; 0 if none waits. */
async function readWait(
  client: pg.Client,
  pids: readonly number[],
  signal: AbortSignal,
): Promise<number> {
  if (pids.length === 0) return 0;
  const [row] = await queryServer<{ ms: number | null }>(
    client,
    `SELECT pg_catalog.max(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - l.waitstart) * 1000) AS ms
       FROM pg_catalog.pg_locks AS l
      WHERE NOT l.granted AND l.locktype = 'relation' AND pg_catalog.pg_blocking_pids(l.pid) && ARRAY[${pids.join(', ')}]`,
    signal,
  );
  return row?.ms ?? 0;
}
