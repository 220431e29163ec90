import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { RowBlock } from '../../../foundation/domain/row-block.ts';
import type { Instant } from '../../../foundation/domain/time.ts';
import type { KeySet, SequenceReading, Slice, SourceRequest, SourceSnapshot } from '../source.ts';
import { watchSilence } from './client.ts';
import {
  closeConnection,
  connect,
  destroyConnection,
  encodingOf,
  limitWork,
  nameColumns,
  noAnswer,
  query,
  runBatch,
} from './connection.ts';
import { isUnderPolicy, toSourceError } from './errors.ts';
import { rowSecuritySql } from './hidden-rows.ts';
import { KeyDigest } from './key-digest.ts';
import type { KeyTexts } from '../../query/select.ts';
import { readDeletes, readKeys, readSlices } from './copy-reader.ts';
import { limitSqls } from './own-statement.ts';
import { findRefusal, readKindSql } from './refusal.ts';
import { PlannedRows, type SelectPlan } from './plan.ts';
import { areTablesReplaced, tablesReplaced } from './replaced-tables.ts';
import { hasReplayed } from './replay.ts';
import { describeTypeChange, findTypeChanges, refuseTypeChanges } from './schema-changes.ts';
import { type Reader, setUpSql } from './session-settings.ts';
import { countLimitOf, slicesOf } from './slices.ts';
import {
  type PlannedRequest,
  refuseEarly,
  SnapshotConnections,
  type TransactionOptions,
  type View,
} from './snapshot-connections.ts';
import type { BatchAnswer, BatchStatement } from './statement-batch.ts';

/** Tables may be replaced while a snapshot is taken: then another one is taken. Maximum of all. */
const maxSnapshots = 5;

/** Describes and counts in the same round trip. @param settled the server at which its interval settled */
export async function openSnapshot(
  planned: PlannedRequest,
  settled: View,
  signal: AbortSignal,
): Promise<PostgresSnapshot> {
  const { options, request } = planned;
  const { guardedViews = new Set() } = options;
  for (let taken = 1; taken <= maxSnapshots; taken += 1) {
    const isGuarded = guardedViews.has(request.model);
    try {
      const opened = await takeSnapshot(planned, settled, isGuarded, signal);
      if (opened) return new PostgresSnapshot(opened);
    } catch (error) {
      if (isGuarded || !isUnderPolicy(error)) throw error;
      guardedViews.add(request.model);
    }
  }
  throw tablesReplaced();
}

/** Null if a table was replaced meanwhile, so that the snapshot may lack rows. */
async function takeSnapshot(
  { options, plan, request }: PlannedRequest,
  settled: View,
  isGuarded: boolean,
  signal: AbortSignal,
): Promise<Opened | null> {
  const { model, relation, describeSql, countSql, used, select, sequence } = plan(request);
  const limit = countLimitOf(request, options.sliceMs);
  const counted = countSql(request.interval, limit);
  const { tenantKey } = request;
  const reader = { tenantKey, rowSecurity: rowSecuritySql([relation], isGuarded) };
  const statements = [
    // First: of a partition that comes meanwhile the next element then knows that it is new.
    ...(sequence ? [{ sql: sequence.sql }] : []),
    { sql: describeSql, describeOnly: true },
    { sql: `SELECT (${counted}) AS "count", ${readKindSql(relation)} AS "kind"` },
    ...(used.describeSql === null ? [] : [{ sql: used.describeSql, describeOnly: true }]),
  ];
  const begun = await begin(options, reader, settled, statements, signal);
  const { client, answers } = begun;
  try {
    if (request.whole) refuseEarly(begun.takenAt, settled, request);
    const [described, answer, types] = sequence ? answers.slice(1) : answers;
    const [count, kind] = answer?.rows[0] ?? [];
    if (kind !== 'plain') {
      if (await areTablesReplaced(client, signal)) {
        await closeConnection(client);
        return null;
      }
      const refusal = kind === 'tables' ? null : await findRefusal(client, relation, signal);
      if (refusal) throw refusal;
    }
    const rows = Number(count);
    if (!Number.isSafeInteger(rows)) throw noCount();
    const named = await nameColumns(client, described?.fields ?? [], signal);
    const usedShape = types ? await nameColumns(client, types.fields, signal) : named;
    const changes = await findTypeChanges(client, used.columns, usedShape, signal);
    refuseTypeChanges(model, changes);
    const planned = select(named);
    const slices = slicesOf(request, options.sliceMs, rows);
    const isCounted = rows !== limit;
    // A name costs the server a file, and only a second connection needs it.
    const isShared = slices.length > 1 || !isCounted;
    const exported = isShared ? await exportSnapshot(client, signal) : null;
    return {
      ...begun,
      ...{ options, plan, request, reader },
      select: planned,
      sequence: sequence?.of(answers[0]?.rows[0]?.[0] ?? '{}', null) ?? null,
      typeChanges: changes.map(describeTypeChange),
      counted: isCounted ? rows : null,
      countSql: countSql(request.interval, null),
      slices,
      exported,
      // Transaction ids are compared at the same start of the server only.
      snapshot: `${begun.snapshot}@${begun.serverStart}`,
    };
  } catch (error) {
    destroyConnection(client);
    throw error;
  }
}

interface Opened extends Omit<Begun, 'answers'>, PlannedRequest {
  /** Each connection of the snapshot has it. */
  readonly reader: Reader;
  readonly select: SelectPlan;
  readonly sequence: SequenceReading | null;
  readonly typeChanges: readonly string[];
  /** All rows of the interval; null if they were too many to be counted first. */
  readonly counted: number | null;
  readonly countSql: string;
  readonly slices: readonly Slice[];
  /** The name of the snapshot for other connections; null if none is needed. */
  readonly exported: string | null;
}

export class PostgresSnapshot extends PlannedRows implements SourceSnapshot {
  readonly typeChanges;
  readonly snapshot: string;
  readonly takenAt: Instant;
  readonly slices: readonly Slice[];
  readonly sequence;
  readonly #opened: Opened;
  readonly #connections: SnapshotConnections;
  /** Of the rows that were read so far. */
  readonly keys = new KeyDigest();
  totalCount: number | null;
  readonly #unread: Set<Slice>;

  constructor(opened: Opened) {
    super(opened.select);
    this.typeChanges = opened.typeChanges;
    this.sequence = opened.sequence;
    this.snapshot = opened.snapshot;
    this.takenAt = opened.takenAt;
    this.slices = opened.slices;
    this.#opened = opened;
    this.totalCount = opened.counted;
    this.#unread = new Set(opened.slices);
    const { options, exported, reader, serverStart: server } = opened;
    this.#connections = new SnapshotConnections(opened, options, (signal) => {
      if (exported === null) throw new Error('the only slice is read a second time');
      return begin(options, reader, { snapshot: exported, server }, [], signal);
    });
  }

  async countRows(asked: AbortSignal): Promise<number> {
    if (this.totalCount !== null) return this.totalCount;
    const signal = AbortSignal.any([asked, this.#connections.closed]);
    // The idle connection is that of the reader.
    const isReading = this.#unread.size > 0;
    const connections = this.#connections;
    const client = await (isReading ? connections.open(signal) : connections.acquire(signal));
    try {
      const [row] = await query<{ count: string }>(client, this.#opened.countSql, signal);
      const count = Number(row?.count ?? Number.NaN);
      if (!Number.isSafeInteger(count)) throw noCount();
      this.totalCount = count;
      return count;
    } catch (error) {
      throw await this.#faultOf(error, signal);
    } finally {
      await connections.end(client);
    }
  }

  async #faultOf(error: unknown, signal: AbortSignal): Promise<SluiceError> {
    signal.throwIfAborted();
    if (this.#connections.excess) return this.#connections.excess;
    const { options, request } = this.#opened;
    const culprit = await options.culpritOf(error, this.#opened, signal);
    if (culprit.code === 'source.recovery_conflict') options.conflicts?.note(request.model);
    return culprit;
  }

  keySet(): KeySet | null {
    return this.select.keys && this.keys.set;
  }

  async readKeySet(signal: AbortSignal): Promise<KeySet> {
    return (await this.readKeys(signal)).set;
  }

  /** As `readKeySet`; keys of parts of an interval can be merged. */
  async readKeys(signal: AbortSignal): Promise<KeyDigest> {
    const { options, request } = this.#opened;
    const { interval } = request;
    const client = await this.#connections.acquire(signal);
    const read = readKeys(client, this.select, interval, options.blockBytes, signal);
    const keys = await read.catch(async (error: unknown) => {
      this.#connections.drop(client);
      throw await this.#faultOf(error, signal);
    });
    this.#connections.giveBack(client);
    return keys;
  }

  async share(request: SourceRequest, signal: AbortSignal): Promise<SourceSnapshot> {
    const { options, plan, serverStart: server } = this.#opened;
    const client = await this.#connections.acquire(signal);
    const snapshot = await exportSnapshot(client, signal);
    this.#connections.giveBack(client);
    return openSnapshot({ options, plan, request }, { snapshot, server }, signal);
  }

  read(slice: Slice, signal: AbortSignal): AsyncGenerator<RowBlock> {
    const { options } = this.#opened;
    const reading = { options, select: this.select, keys: this.keys };
    const onEnd = () => void this.#unread.delete(slice);
    return this.#readAll(signal, onEnd, (client) =>
      readSlices(client, [{ reading, slice }], signal),
    );
  }

  readDeletes(signal: AbortSignal, keys?: readonly KeyTexts[]): AsyncGenerator<RowBlock> {
    const { options, request } = this.#opened;
    const { interval } = request;
    const read = (client: pg.Client) =>
      readDeletes(client, options, this.select, interval, signal, keys);
    return this.#readAll(signal, () => {}, read);
  }

  async *#readAll(
    signal: AbortSignal,
    onEnd: () => void,
    read: (client: pg.Client) => AsyncIterable<{ readonly block: RowBlock }>,
  ): AsyncGenerator<RowBlock> {
    const client = await this.#connections.acquire(signal);
    let isWhole = false;
    try {
      for await (const { block } of read(client)) yield block;
      onEnd();
      isWhole = true;
    } catch (error) {
      // The search has the connection's place.
      this.#connections.drop(client);
      throw await this.#faultOf(error, signal);
    } finally {
      // A read that did not end leaves a running statement: its connection is lost.
      if (isWhole && !this.#connections.excess) this.#connections.giveBack(client);
      else this.#connections.drop(client);
    }
  }

  close(): Promise<void> {
    return this.#connections.close();
  }
}

const noCount = () => new SluiceError('source.unavailable', 'the server gave no count');

async function exportSnapshot(client: pg.Client, signal: AbortSignal): Promise<string> {
  const sql = 'SELECT pg_catalog.pg_export_snapshot() AS name';
  const [row] = await query<{ name: string }>(client, sql, signal);
  if (!row) throw new SluiceError('source.unavailable', 'the server gave no snapshot');
  return row.name;
}

interface Begun {
  readonly client: pg.Client;
  readonly snapshot: string;
  readonly serverStart: string;
  /** A moment before the snapshot was taken, by the server's clock. Of an exported snapshot: when it was taken over. */
  readonly takenAt: Instant;
  readonly pid: number;
  readonly answers: readonly BatchAnswer[];
}

/**
 * Settings, snapshot and `more` are one round trip. A kept connection is replaced if it is lost, or leads to another
 * server than the one that settled: it may be from before a failover.
 * @throws SluiceError `source.unavailable` if another server answers than the one that settled
 */
export async function begin(
  options: TransactionOptions,
  reader: Reader,
  view: View,
  more: readonly BatchStatement[],
  signal: AbortSignal,
): Promise<Begun> {
  const idle = 'snapshot' in view ? null : (options.kept?.take() ?? null);
  const { server } = view;
  if (idle) {
    const { connectTimeoutMs } = options;
    const begun = await beginOn(idle, options, reader, view, more, signal, connectTimeoutMs).catch(
      (error) => {
        if (toSourceError(error).code !== 'source.unavailable' || signal.aborted) throw error;
        return null;
      },
    );
    const last = server ?? options.settledAt?.() ?? null;
    if (begun && (last === null || begun.serverStart === last)) return begun;
    destroyConnection(idle);
  }
  const begun = await beginOn(await connect(options, signal), options, reader, view, more, signal);
  if (server === null || begun.serverStart === server) return begun;
  destroyConnection(begun.client);
  throw new SluiceError('source.unavailable', 'another server answers than the one that settled');
}

async function beginOn(
  client: pg.Client,
  options: TransactionOptions,
  reader: Reader,
  view: View,
  more: readonly BatchStatement[],
  signal: AbortSignal,
  answerMs: number | null = null,
): Promise<Begun> {
  const { silenceMs = 150_000 } = options;
  const pids: number[] = [];
  limitWork(client, options.statementTimeoutMs + silenceMs, (onEnd) => {
    const endLook = watchSilence(options, silenceMs, () => onEnd(noAnswer()));
    const endWatch = options.watchHeld?.({ pids: () => pids, onExcess: onEnd });
    return () => {
      endLook();
      endWatch?.();
    };
  });
  const before = [
    { sql: 'BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY' },
    ...limitSqls(client, options.statementTimeoutMs).map((sql) => ({ sql })),
    ...('snapshot' in view ? [{ sql: `SET TRANSACTION SNAPSHOT '${view.snapshot}'` }] : []),
  ];
  const position = 'position' in view ? view.position : null;
  try {
    if (encodingOf(client) === 'SQL_ASCII') {
      const detail = 'its encoding is SQL_ASCII, so the encoding of its text is unknown';
      throw new SluiceError('source.unsupported', detail);
    }
    // By itself: a statement's snapshot is older than anything that the statement finds out.
    if (position !== null && !(await hasReplayed(client, position, signal))) {
      throw new SluiceError('source.unavailable', 'the standby is behind the one that was settled');
    }
    const statements = [...before, { sql: setUpSql(options.idleTimeoutMs, reader) }, ...more];
    // Of the settings. What follows may take long, and others may wait for its locks.
    const early = {
      index: before.length,
      answerMs: answerMs ?? silenceMs,
      onAnswer: ({ rows: [row] }: BatchAnswer) => void pids.push(Number(row?.[2])),
    };
    const answers = await runBatch(client, statements, signal, early);
    const [snapshot, serverStart, pid, takenAt] = answers[before.length]?.rows[0] ?? [];
    if (!snapshot || !serverStart) {
      throw new SluiceError('source.unavailable', 'the server gave no snapshot');
    }
    return {
      client,
      snapshot,
      serverStart,
      // Rounded down: still before it.
      takenAt: Math.floor(Number(takenAt) * 1_000),
      pid: Number(pid),
      answers: answers.slice(before.length + 1),
    };
  } catch (error) {
    destroyConnection(client);
    throw error;
  }
}
