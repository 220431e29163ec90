import type pg from 'pg';
import { SluiceError } from '../../domain/errors.ts';
import type { RowBlock } from '../../domain/row-block.ts';
import type { KeySet, Slice, SourceRequest, SourceSnapshot } from '../source.ts';
import {
  type ConnectionOptions,
  closeConnection,
  connect,
  destroyConnection,
  encodingOf,
  limitWork,
  nameColumns,
  query,
  runBatch,
  serverVersionOf,
} from './connection.ts';
import { toSourceError } from './errors.ts';
import { nameFailingRow, searchOptions } from './failing-row.ts';
import { findHidden, isViewSql, type ReadRelation, rowsHidden, rowsHiddenSql } from './hidden-rows.ts';
import type { KeptConnections } from './kept-connections.ts';
import { KeyDigest } from './key-digest.ts';
import type { PlanSelect, SelectPlan } from './plan.ts';
import { readSlice, type SliceOptions } from './read-slice.ts';
import { tablesReplaced, tablesReplacedSql } from './replaced-tables.ts';
import { hasReplayed } from './replay.ts';
import { nameLargeRow } from './row-too-large.ts';
import { setUpSql } from './session-settings.ts';
import { watchSilence } from './silence.ts';
import { countLimit, sliceInterval } from './slices.ts';
import type { BatchAnswer, BatchStatement } from './statement-batch.ts';

export interface SnapshotOptions extends ConnectionOptions, SliceOptions {
  readonly statementTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /**
   * How long a server may be silent although it has nothing to do; 150 seconds: a pooler may wait 120 for a server.
   * A statement without an answer ends so much later than by the server's own limit, or earlier if the server
   * answers no new connection either.
   */
  readonly silenceMs?: number;
  readonly sliceMs: number;
  /** Where the connections of snapshots come from and go to; default: a new one each. */
  readonly kept?: KeptConnections;
  /** The start of the server that settled last; null if it is not known. */
  readonly settledAt?: () => string | null;
}

/** Tables may be replaced while a snapshot is taken: then another one is taken. Maximum of all. */
const maxSnapshots = 5;

/**
 * Opens the transaction, describes and counts, in one round trip. Throws SluiceError.
 *
 * @param settled the server at which its interval settled
 */
export async function openSnapshot(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  settled: SettledAt,
  signal: AbortSignal,
): Promise<SourceSnapshot> {
  for (let taken = 1; taken <= maxSnapshots; taken += 1) {
    const opened = await takeSnapshot(options, plan, request, settled, signal);
    if (opened) return new PostgresSnapshot(opened, request);
  }
  throw tablesReplaced();
}

/** @returns null if a table was replaced meanwhile, so that the snapshot may lack rows */
async function takeSnapshot(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  settled: SettledAt,
  signal: AbortSignal,
): Promise<Opened | null> {
  const { relation, describeSql, countSql, select } = plan(request);
  // Keys are compared in number, and may not be read at all.
  const limit = request.select === 'keys' ? null : countLimit(request.interval, options.sliceMs);
  const statements = [
    { sql: describeSql, describeOnly: true },
    { sql: `SELECT (${countSql(request.interval, limit)}) AS "count", ${checksSql(relation)}` },
  ];
  const { client, snapshot, serverStart, answers } = await begin(
    options,
    request.teamId,
    settled,
    statements,
    signal,
  );
  try {
    const [described, counted] = answers;
    const [count, replaced, hidden, view] = counted?.rows[0] ?? [];
    if (replaced === 't') {
      await closeConnection(client);
      return null;
    }
    const isPlain = hidden === 'f' && view === 'f';
    const behind = isPlain ? null : await findHidden(client, relation, signal);
    if (behind ?? hidden !== 'f') throw behind ?? rowsHidden(relation);
    const rows = Number(count);
    if (!Number.isSafeInteger(rows)) {
      throw noCount();
    }
    const named = await nameColumns(client, described?.fields ?? [], signal);
    const planned = select(named, serverVersionOf(client));
    const slices = sliceInterval(request.interval, options.sliceMs, rows);
    const isCounted = rows !== limit;
    // A name costs the server a file, and only a second connection needs it.
    const isShared = slices.length > 1 || !isCounted;
    const exported = isShared ? await exportSnapshot(client, signal) : null;
    return {
      options,
      client,
      select: planned,
      counted: isCounted ? rows : null,
      countSql: countSql(request.interval, null),
      slices,
      exported,
      // Transaction ids are compared at the same start of the server only.
      snapshot: `${snapshot}@${serverStart}`,
      serverStart,
    };
  } catch (error) {
    destroyConnection(client);
    throw error;
  }
}

/** SQL of three columns: whether a table was replaced, whether rows are hidden, and whether it is a view. */
export const checksSql = (relation: ReadRelation): string =>
  `${tablesReplacedSql} AS "replaced", ${rowsHiddenSql(relation)} AS "hidden", ${isViewSql(relation)} AS "view"`;

interface Opened {
  readonly options: SnapshotOptions;
  readonly client: pg.Client;
  readonly select: SelectPlan;
  /** All rows of the interval; null if they were too many to be counted first. */
  readonly counted: number | null;
  /** Counts them. */
  readonly countSql: string;
  readonly slices: readonly Slice[];
  /** The name of the snapshot for other connections; null if none is needed. */
  readonly exported: string | null;
  readonly snapshot: string;
  readonly serverStart: string;
}

/** Holds the transaction. Parallel reads get their own connections, which share its snapshot. */
class PostgresSnapshot implements SourceSnapshot {
  readonly columns;
  readonly keyPlaces: readonly number[];
  readonly snapshot: string;
  readonly slices: readonly Slice[];
  readonly projection;
  readonly #opened: Opened;
  readonly #request: SourceRequest;
  readonly #idle: pg.Client[];
  readonly #clients: Set<pg.Client>;
  readonly #keys = new KeyDigest();
  #totalCount: number | null;
  /** Slices that were not read to their end. */
  readonly #unread: Set<Slice>;
  /** Ends a count that nothing waits for. */
  readonly #closed = new AbortController();

  constructor(opened: Opened, request: SourceRequest) {
    const { columns, keys } = opened.select;
    this.columns = columns;
    this.keyPlaces = keys?.places.filter((place) => place < columns.length) ?? [];
    this.projection = opened.select.projection;
    this.snapshot = opened.snapshot;
    this.slices = opened.slices;
    this.#opened = opened;
    this.#request = request;
    this.#totalCount = opened.counted;
    this.#unread = new Set(opened.slices);
    this.#idle = [opened.client];
    this.#clients = new Set(this.#idle);
  }

  get totalCount(): number | null {
    return this.#totalCount;
  }

  async countRows(asked: AbortSignal): Promise<number> {
    if (this.#totalCount !== null) return this.#totalCount;
    const signal = AbortSignal.any([asked, this.#closed.signal]);
    // The idle connection is that of the reader.
    const client = await (this.#unread.size > 0 ? this.#connect(signal) : this.#acquire(signal));
    try {
      const [row] = await query<{ count: string }>(client, this.#opened.countSql, signal);
      const count = Number(row?.count ?? Number.NaN);
      if (!Number.isSafeInteger(count)) throw noCount();
      this.#totalCount = count;
      return count;
    } finally {
      this.#clients.delete(client);
      await closeConnection(client);
    }
  }

  keySet(): KeySet | null {
    if (this.#opened.select.keys === null) return null;
    return { digest: this.#keys.read(), count: this.#keys.count };
  }

  async *read(slice: Slice, signal: AbortSignal): AsyncGenerator<RowBlock> {
    const { options, select } = this.#opened;
    const client = await this.#acquire(signal);
    let whole = false;
    try {
      const { model } = this.#request;
      const reading = { options, model, select, keys: this.#keys };
      yield* readSlice(client, reading, slice, signal);
      this.#unread.delete(slice);
      whole = true;
    } catch (error) {
      // The search has the connection's place.
      this.#drop(client);
      signal.throwIfAborted();
      throw await this.#nameRow(nameLargeRow(error, select, options.maxRowBytes), signal);
    } finally {
      // A slice that was not read to its end leaves a running statement: its connection is lost.
      if (whole) this.#idle.push(client);
      else this.#drop(client);
    }
  }

  async close(): Promise<void> {
    this.#closed.abort();
    const { kept } = this.#opened.options;
    const busy = [...this.#clients].filter((client) => !this.#idle.includes(client));
    const idle = this.#idle.splice(0);
    this.#clients.clear();
    await Promise.all([
      ...busy.map(closeConnection),
      ...idle.map((client) => (kept ? kept.give(client) : closeConnection(client))),
    ]);
  }

  async #acquire(signal: AbortSignal): Promise<pg.Client> {
    return this.#idle.pop() ?? this.#connect(signal);
  }

  /** Another connection to the same snapshot. */
  async #connect(signal: AbortSignal): Promise<pg.Client> {
    const { options, exported, serverStart: server } = this.#opened;
    if (exported === null) throw new Error('the only slice is read a second time');
    const { client } = await begin(
      options,
      this.#request.teamId,
      { snapshot: exported, server },
      [],
      signal,
    );
    this.#clients.add(client);
    return client;
  }

  #nameRow(error: unknown, signal: AbortSignal): Promise<unknown> {
    const { options, select } = this.#opened;
    const { teamId, interval } = this.#request;
    const begin = () => beginSnapshot(searchOptions(options), teamId, signal);
    return nameFailingRow(error, (value) => select.findRowSql(interval, value), begin, signal);
  }

  #drop(client: pg.Client): void {
    this.#clients.delete(client);
    destroyConnection(client);
  }
}

/** A connection in a transaction with its own snapshot; `settled` as for `openSnapshot`. */
export async function beginSnapshot(
  options: SnapshotOptions,
  teamId: number,
  signal: AbortSignal,
  settled: SettledAt = nowhere,
): Promise<pg.Client> {
  return (await begin(options, teamId, settled, [], signal)).client;
}

const noCount = () => new SluiceError('source.unavailable', 'the server gave no count');

async function exportSnapshot(client: pg.Client, signal: AbortSignal): Promise<string> {
  const sql = 'SELECT pg_catalog.pg_export_snapshot() AS name';
  const [row] = await query<{ name: string }>(client, sql, signal);
  if (!row) throw new SluiceError('source.unavailable', 'the server gave no snapshot');
  return row.name;
}

/** The server at which an interval settled: its rows are read there, or at a standby that has them all. */
export interface SettledAt {
  /** What a standby must have replayed before; one address may lead to several standbys. */
  readonly position: string | null;
  /** The start of the server that was waited for; null if it is not known, or is not the one that is read. */
  readonly server: string | null;
}

const nowhere: SettledAt = { position: null, server: null };

/** Its own snapshot, or an exported one. */
type View = SettledAt | { readonly snapshot: string; readonly server: string };

interface Begun {
  readonly client: pg.Client;
  readonly snapshot: string;
  readonly serverStart: string;
  /** To `more`, in its order. */
  readonly answers: readonly BatchAnswer[];
}

/**
 * Begins a transaction. Its settings, its snapshot and `more` are one round trip. A kept connection is
 * replaced if it is lost, or leads to another server than the one that settled: it may be from before a
 * failover. If a new one leads to another server too, nothing is known of its transactions, and a standby may
 * show rows late.
 *
 * @throws SluiceError `source.unavailable` if another server answers than the one that settled
 */
export async function begin(
  options: SnapshotOptions,
  teamId: number,
  view: View,
  more: readonly BatchStatement[],
  signal: AbortSignal,
): Promise<Begun> {
  const kept = 'snapshot' in view ? null : (options.kept?.take() ?? null);
  const { server } = view;
  if (kept) {
    const { connectTimeoutMs } = options;
    const begun = await beginOn(kept, options, teamId, view, more, signal, connectTimeoutMs).catch(
      (error) => {
        if (toSourceError(error).code !== 'source.unavailable' || signal.aborted) throw error;
        return null;
      },
    );
    const last = server ?? options.settledAt?.() ?? null;
    if (begun && (last === null || begun.serverStart === last)) return begun;
    destroyConnection(kept);
  }
  const begun = await beginOn(await connect(options, signal), options, teamId, view, more, signal);
  if (server === null || begun.serverStart === server) return begun;
  destroyConnection(begun.client);
  throw new SluiceError('source.unavailable', 'another server answers than the one that settled');
}

async function beginOn(
  client: pg.Client,
  options: SnapshotOptions,
  teamId: number,
  view: View,
  more: readonly BatchStatement[],
  signal: AbortSignal,
  answerMs: number | null = null,
): Promise<Begun> {
  const { silenceMs = 150_000 } = options;
  limitWork(client, options.statementTimeoutMs + silenceMs, (onSilent) =>
    watchSilence(options, { silenceMs, lookEveryMs: silenceMs / 5 }, onSilent),
  );
  const before = [
    { sql: 'BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY' },
    ...('snapshot' in view ? [{ sql: `SET TRANSACTION SNAPSHOT '${view.snapshot}'` }] : []),
  ];
  const position = 'position' in view ? view.position : null;
  try {
    if (encodingOf(client) === 'SQL_ASCII') {
      throw new SluiceError(
        'source.unsupported',
        'its encoding is SQL_ASCII, so the encoding of its text is unknown',
      );
    }
    // By itself: a statement's snapshot is older than anything that the statement finds out.
    if (position !== null && !(await hasReplayed(client, position, signal))) {
      throw new SluiceError('source.unavailable', 'the standby is behind the one that was settled');
    }
    const statements = [...before, { sql: setUpSql(options, teamId, serverVersionOf(client)) }, ...more];
    const answers = await runBatch(client, statements, signal, answerMs ?? silenceMs);
    const [snapshot, serverStart] = answers[before.length]?.rows[0] ?? [];
    if (!snapshot || !serverStart) {
      throw new SluiceError('source.unavailable', 'the server gave no snapshot');
    }
    return { client, snapshot, serverStart, answers: answers.slice(before.length + 1) };
  } catch (error) {
    destroyConnection(client);
    throw error;
  }
}
