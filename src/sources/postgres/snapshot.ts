import type pg from 'pg';
import { SluiceError } from '../../domain/errors.ts';
import type { RowBlock } from '../../domain/row-block.ts';
import type { DataInterval } from '../../domain/time.ts';
import type { KeySet, Slice, SourceRequest, SourceSnapshot } from '../source.ts';
import {
  type ConnectionOptions,
  closeConnection,
  connect,
  destroyConnection,
  encodingOf,
  nameColumns,
  query,
  runBatch,
  serverVersionOf,
} from './connection.ts';
import { toSourceError } from './errors.ts';
import { nameFailingRow, searchOptions } from './failing-row.ts';
import type { KeptConnections } from './kept-connections.ts';
import { KeyDigest } from './key-digest.ts';
import { markOwnTransaction } from './live-transactions.ts';
import type { PlanSelect, SelectPlan } from './plan.ts';
import { readSlice, type SliceOptions } from './read-slice.ts';
import { hasReplayed } from './replay.ts';
import { nameLargeRow } from './row-too-large.ts';
import { tenantSetting } from './source-role.ts';
import type { BatchAnswer, BatchStatement } from './statement-batch.ts';

export interface SnapshotOptions extends ConnectionOptions, SliceOptions {
  readonly statementTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly sliceMs: number;
  /** Where the connections of snapshots come from and go to; default: a new one each. */
  readonly kept?: KeptConnections;
  /** The start of the server that settled last; null if it is not known. */
  readonly settledAt?: () => string | null;
}

/**
 * Opens the transaction, describes and counts, in one round trip. Throws SluiceError.
 *
 * @param position what a standby must have replayed before; one address may lead to several standbys
 */
export async function openSnapshot(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  position: string | null,
  signal: AbortSignal,
): Promise<SourceSnapshot> {
  const { describeSql, countSql, select } = plan(request);
  const statements = [
    { sql: describeSql, describeOnly: true },
    { sql: countSql(request.interval) },
  ];
  const { client, snapshot, answers } = await begin(
    options,
    request.teamId,
    { position },
    statements,
    signal,
  );
  try {
    const [described, counted] = answers;
    const totalCount = Number(counted?.rows[0]?.[0]);
    if (!Number.isSafeInteger(totalCount)) {
      throw new SluiceError('source.unavailable', 'the server gave no count');
    }
    const named = await nameColumns(client, described?.fields ?? [], signal);
    const planned = select(named, serverVersionOf(client));
    const slices = sliceInterval(request.interval, options.sliceMs, totalCount);
    // A name costs the server a file, and only a second reader needs it.
    const exported = slices.length > 1 ? await exportSnapshot(client, signal) : null;
    return new PostgresSnapshot(
      { options, client, select: planned, totalCount, slices, exported, snapshot },
      request,
    );
  } catch (error) {
    destroyConnection(client);
    throw error;
  }
}

interface Opened {
  readonly options: SnapshotOptions;
  readonly client: pg.Client;
  readonly select: SelectPlan;
  readonly totalCount: number;
  readonly slices: readonly Slice[];
  /** The name of the snapshot for other connections; null if there is one slice at most. */
  readonly exported: string | null;
  readonly snapshot: string;
}

/** Holds the transaction. Parallel reads get their own connections, which share its snapshot. */
class PostgresSnapshot implements SourceSnapshot {
  readonly columns;
  readonly keyPlaces: readonly number[];
  readonly totalCount: number;
  readonly snapshot: string;
  readonly slices: readonly Slice[];
  readonly projection;
  readonly #opened: Opened;
  readonly #request: SourceRequest;
  readonly #idle: pg.Client[];
  readonly #clients: Set<pg.Client>;
  readonly #keys = new KeyDigest();

  constructor(opened: Opened, request: SourceRequest) {
    const { columns, keys } = opened.select;
    this.columns = columns;
    this.keyPlaces = keys?.places.filter((place) => place < columns.length) ?? [];
    this.projection = opened.select.projection;
    this.totalCount = opened.totalCount;
    this.snapshot = opened.snapshot;
    this.slices = opened.slices;
    this.#opened = opened;
    this.#request = request;
    this.#idle = [opened.client];
    this.#clients = new Set(this.#idle);
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
      yield* readSlice(client, { options, model, select, keys: this.#keys }, slice, signal);
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
    const idle = this.#idle.pop();
    if (idle) return idle;
    const { options, exported } = this.#opened;
    if (exported === null) throw new Error('the only slice is read a second time');
    const { client } = await begin(
      options,
      this.#request.teamId,
      { snapshot: exported },
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

/** A connection in a transaction with its own snapshot; `position` as for `openSnapshot`. */
export async function beginSnapshot(
  options: SnapshotOptions,
  teamId: number,
  signal: AbortSignal,
  position: string | null = null,
): Promise<pg.Client> {
  return (await begin(options, teamId, { position }, [], signal)).client;
}

async function exportSnapshot(client: pg.Client, signal: AbortSignal): Promise<string> {
  const sql = 'SELECT pg_catalog.pg_export_snapshot() AS name';
  const [row] = await query<{ name: string }>(client, sql, signal);
  if (!row) throw new SluiceError('source.unavailable', 'the server gave no snapshot');
  return row.name;
}

/** Its own snapshot, or an exported one. */
type View = { readonly position: string | null } | { readonly snapshot: string };

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
 * failover.
 */
async function begin(
  options: SnapshotOptions,
  teamId: number,
  view: View,
  more: readonly BatchStatement[],
  signal: AbortSignal,
): Promise<Begun> {
  const kept = 'snapshot' in view ? null : (options.kept?.take() ?? null);
  if (kept) {
    const { connectTimeoutMs } = options;
    const begun = await beginOn(kept, options, teamId, view, more, signal, connectTimeoutMs).catch(
      (error) => {
        if (toSourceError(error).code !== 'source.unavailable' || signal.aborted) throw error;
        return null;
      },
    );
    const settledAt = options.settledAt?.() ?? null;
    if (begun && (settledAt === null || begun.serverStart === settledAt)) return begun;
    destroyConnection(kept);
  }
  return beginOn(await connect(options, signal), options, teamId, view, more, signal);
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
    const statements = [...before, { sql: setUpSql(options, teamId) }, ...more];
    const answers = await runBatch(client, statements, signal, answerMs);
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

/** One statement for all settings of a transaction. It gives the snapshot, and when the server was started. */
function setUpSql(options: SnapshotOptions, teamId: number): string {
  const settings = sessionSettings(options, teamId).map(
    ([name, value]) => `pg_catalog.set_config('${name}', '${value}', true)`,
  );
  return `SELECT pg_catalog.pg_current_snapshot()::pg_catalog.text,
    pg_catalog.extract('epoch', pg_catalog.pg_postmaster_start_time())::pg_catalog.text, ${markOwnTransaction}, ${settings.join(', ')}`;
}

function sessionSettings(
  options: SnapshotOptions,
  teamId: number,
): readonly (readonly [string, string | number])[] {
  return [
    ['statement_timeout', options.statementTimeoutMs],
    ['idle_in_transaction_session_timeout', options.idleTimeoutMs],
    // Row-level security shows the rows of this project only: source-role.ts.
    [tenantSetting, Number(teamId)],
    // The statements qualify every name with its schema; operators cannot be qualified (query/README.md).
    ['search_path', 'pg_catalog'],
    // The output of to_json must not depend on the settings of the role or the database.
    ['timezone', 'UTC'],
    ['client_encoding', 'UTF8'],
    ['extra_float_digits', 1],
    ['intervalstyle', 'iso_8601'],
    // Of times in arrays and composites that are printed; leaves the order in which dates are read.
    ['datestyle', 'ISO'],
    ['bytea_output', 'hex'],
    // A slice is read by its index, in order; other plans hold the rows back to sort them all. These
    // settings only influence the choice: without an index the server still finds another way.
    ['synchronize_seqscans', 'off'],
    ['enable_seqscan', 'off'],
    ['enable_bitmapscan', 'off'],
    ['max_parallel_workers_per_gather', 0],
    ['jit', 'off'],
  ];
}

/** A slice of fewer rows is not worth a statement of its own. */
const rowsPerSlice = 1_000;

/**
 * Cuts the interval into slices from its start; the last slice may be shorter. Without rows there are none.
 * Slices of few rows are joined, so that there are at most as many as thousands of rows, rounded up.
 *
 * @param sliceMs how long a slice is at least
 */
export function sliceInterval(
  interval: DataInterval,
  sliceMs: number,
  totalCount: number,
): readonly Slice[] {
  const lengthMs = interval.end - interval.start;
  const most = Math.ceil(totalCount / rowsPerSlice);
  const joined = most === 0 ? 0 : Math.max(1, Math.ceil(Math.ceil(lengthMs / sliceMs) / most));
  const slices: Slice[] = [];
  for (let start = interval.start; joined > 0 && start < interval.end; start += joined * sliceMs) {
    slices.push({ start, end: Math.min(start + joined * sliceMs, interval.end) });
  }
  return slices;
}
