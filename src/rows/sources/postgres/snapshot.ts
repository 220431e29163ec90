import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { RowBlock } from '../../../foundation/domain/row-block.ts';
import { type Instant, toTimestamp } from '../../../foundation/domain/time.ts';
import {
  type KeySet,
  manyRows,
  type SequenceReading,
  type Slice,
  type SourceRequest,
  type SourceSnapshot,
} from '../source.ts';
import { begin, type SnapshotOptions, type View } from './begin-snapshot.ts';
import { closeConnection, destroyConnection, nameColumns, query } from './connection.ts';
import { findCulprit } from './culprit.ts';
import { isUnderPolicy } from './errors.ts';
import { rowSecuritySql } from './hidden-rows.ts';
import { KeyDigest } from './key-digest.ts';
import type { KeyTexts } from '../../query/select.ts';
import { readDeletes, readKeys, readSlices } from './copy-reader.ts';
import { findRefusal, readKindSql } from './refusal.ts';
import { PlannedRows, type PlanSelect, type SelectPlan } from './plan.ts';
import { areTablesReplaced, tablesReplaced } from './replaced-tables.ts';
import type { SequencePlan } from './sequence-point.ts';
import type { Reader } from './session-settings.ts';
import { applyTypeChanges, describeTypeChange, findTypeChanges } from './schema-changes.ts';
import { countLimit, slicesOf } from './slices.ts';

/** Tables may be replaced while a snapshot is taken: then another one is taken. Maximum of all. */
const maxSnapshots = 5;

/** Describes and counts in the same round trip. @param settled the server at which its interval settled */
export async function openSnapshot(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  settled: View,
  signal: AbortSignal,
): Promise<PostgresSnapshot> {
  const { guardedViews = new Set() } = options;
  for (let taken = 1; taken <= maxSnapshots; taken += 1) {
    const isGuarded = guardedViews.has(request.model);
    try {
      const opened = await takeSnapshot(options, plan, request, settled, isGuarded, signal);
      if (opened) return new PostgresSnapshot(opened, request);
    } catch (error) {
      if (isGuarded || !isUnderPolicy(error)) throw error;
      guardedViews.add(request.model);
    }
  }
  throw tablesReplaced();
}

/** Null if a table was replaced meanwhile, so that the snapshot may lack rows. */
async function takeSnapshot(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  settled: View,
  isGuarded: boolean,
  signal: AbortSignal,
): Promise<Opened | null> {
  const { model, relation, describeSql, countSql, used, select, sequence } = plan(request);
  // Keys are compared in number, and may not be read at all.
  const limit =
    request.select === 'keys'
      ? null
      : request.whole
        ? manyRows
        : countLimit(request.interval, options.sliceMs);
  const { tenantKey } = request;
  const reader = { tenantKey, rowSecurity: rowSecuritySql([relation], isGuarded) };
  const statements = [
    // First: of a partition that comes meanwhile the next element then knows that it is new.
    ...(sequence ? [{ sql: sequence.sql }] : []),
    { sql: describeSql, describeOnly: true },
    {
      sql: `SELECT (${countSql(request.interval, limit)}) AS "count", ${readKindSql(relation)} AS "kind"`,
    },
    ...(used.describeSql === null ? [] : [{ sql: used.describeSql, describeOnly: true }]),
  ];
  const begun = await begin(options, reader, settled, statements, signal);
  const { client, answers } = begun;
  try {
    if (request.whole) refuseEarly(begun.takenAt, settled, request);
    const [described, counted, types] = sequence ? answers.slice(1) : answers;
    const [count, kind] = counted?.rows[0] ?? [];
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
    const planned = select(named, applyTypeChanges(model, changes));
    const slices = slicesOf(request, options.sliceMs, rows);
    const isCounted = rows !== limit;
    // A name costs the server a file, and only a second connection needs it.
    const isShared = slices.length > 1 || !isCounted;
    const exported = isShared ? await exportSnapshot(client, signal) : null;
    return {
      ...begun,
      options,
      plan,
      reader,
      select: planned,
      sequence: readPoint(sequence, answers[0]?.rows[0]?.[0]),
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

const readPoint = (
  sequence: SequencePlan | null,
  answer: string | null | undefined,
): SequenceReading | null => sequence?.of(answer ?? '{}', null) ?? null;

interface Opened {
  readonly options: SnapshotOptions;
  readonly plan: PlanSelect;
  /** Each connection of the snapshot has it. */
  readonly reader: Reader;
  readonly client: pg.Client;
  readonly pid: number;
  readonly select: SelectPlan;
  readonly sequence: SequenceReading | null;
  readonly typeChanges: readonly string[];
  /** All rows of the interval; null if they were too many to be counted first. */
  readonly counted: number | null;
  readonly countSql: string;
  readonly slices: readonly Slice[];
  /** The name of the snapshot for other connections; null if none is needed. */
  readonly exported: string | null;
  readonly snapshot: string;
  readonly takenAt: Instant;
  readonly serverStart: string;
}

/**
 * The clock may have been set back. What a standby has replayed was written after the end by its primary's clock.
 * @throws SluiceError `source.unavailable` if the interval has not ended by the clock of the rows' server
 */
function refuseEarly(takenAt: Instant, settled: View, { interval }: SourceRequest): void {
  if ('snapshot' in settled || settled.position !== null || takenAt >= interval.end) return;
  const detail = `its clock says that the interval has not ended: ${toTimestamp(takenAt)}`;
  throw new SluiceError('source.unavailable', detail);
}

/** Parallel reads get their own connections, which share its snapshot. */
export class PostgresSnapshot extends PlannedRows implements SourceSnapshot {
  readonly typeChanges;
  readonly snapshot: string;
  readonly takenAt: Instant;
  readonly slices: readonly Slice[];
  readonly sequence;
  readonly #opened: Opened;
  readonly #request: SourceRequest;
  readonly #idle: pg.Client[];
  readonly #clients: Set<pg.Client>;
  readonly #pids = new Map<pg.Client, number>();
  readonly #endWatch: () => void;
  /** Why the connections were given up; null if they were not. */
  #excess: SluiceError | null = null;
  /** Of the rows that were read so far. */
  readonly keys = new KeyDigest();
  #totalCount: number | null;
  readonly #unread: Set<Slice>;
  /** Ends a count that nothing waits for. */
  readonly #closed = new AbortController();

  constructor(opened: Opened, request: SourceRequest) {
    super(opened.select);
    this.typeChanges = opened.typeChanges;
    this.sequence = opened.sequence;
    this.snapshot = opened.snapshot;
    this.takenAt = opened.takenAt;
    this.slices = opened.slices;
    this.#opened = opened;
    this.#request = request;
    this.#totalCount = opened.counted;
    this.#unread = new Set(opened.slices);
    this.#idle = [opened.client];
    this.#clients = new Set(this.#idle);
    this.#pids.set(opened.client, opened.pid);
    const watch = opened.options.watchHeld ?? (() => () => {});
    this.#endWatch = watch({
      pids: () => [...this.#clients].flatMap((client) => this.#pids.get(client) ?? []),
      onExcess: (error) => this.#release(error),
    });
  }

  /** Ends the transactions at once. Rows that are still to be read fail with the error. */
  #release(error: SluiceError): void {
    this.#excess = error;
    this.#closed.abort(error);
    this.#idle.length = 0;
    for (const client of this.#clients) destroyConnection(client);
    this.#clients.clear();
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
    } catch (error) {
      throw await this.#faultOf(error, signal);
    } finally {
      this.#clients.delete(client);
      await closeConnection(client);
    }
  }

  async #faultOf(error: unknown, signal: AbortSignal): Promise<SluiceError> {
    signal.throwIfAborted();
    if (this.#excess) return this.#excess;
    const { options, plan } = this.#opened;
    const culprit = await findCulprit(error, options, plan, this.#request, signal);
    if (culprit.code === 'source.recovery_conflict') options.conflicts?.note(this.#request.model);
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
    const { options } = this.#opened;
    const { interval } = this.#request;
    const client = await this.#acquire(signal);
    const read = readKeys(client, this.select, interval, options.blockBytes, signal);
    const keys = await read.catch(async (error: unknown) => {
      this.#drop(client);
      throw await this.#faultOf(error, signal);
    });
    this.#idle.push(client);
    return keys;
  }

  async share(request: SourceRequest, signal: AbortSignal): Promise<SourceSnapshot> {
    const { options, plan, serverStart: server } = this.#opened;
    const client = await this.#acquire(signal);
    const snapshot = await exportSnapshot(client, signal);
    this.#idle.push(client);
    return openSnapshot(options, plan, request, { snapshot, server }, signal);
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
    const { options } = this.#opened;
    const { interval } = this.#request;
    const read = (client: pg.Client) =>
      readDeletes(client, options, this.select, interval, signal, keys);
    return this.#readAll(signal, () => {}, read);
  }

  async *#readAll(
    signal: AbortSignal,
    onEnd: () => void,
    read: (client: pg.Client) => AsyncIterable<{ readonly block: RowBlock }>,
  ): AsyncGenerator<RowBlock> {
    const client = await this.#acquire(signal);
    let isWhole = false;
    try {
      for await (const { block } of read(client)) yield block;
      onEnd();
      isWhole = true;
    } catch (error) {
      // The search has the connection's place.
      this.#drop(client);
      throw await this.#faultOf(error, signal);
    } finally {
      // A read that did not end leaves a running statement: its connection is lost.
      if (isWhole && !this.#excess) this.#idle.push(client);
      else this.#drop(client);
    }
  }

  async close(): Promise<void> {
    this.#endWatch();
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

  async #connect(signal: AbortSignal): Promise<pg.Client> {
    if (this.#excess) throw this.#excess;
    const { options, exported, reader, serverStart: server } = this.#opened;
    if (exported === null) throw new Error('the only slice is read a second time');
    const view = { snapshot: exported, server };
    const { client, pid } = await begin(options, reader, view, [], signal);
    this.#clients.add(client);
    this.#pids.set(client, pid);
    return client;
  }

  #drop(client: pg.Client): void {
    this.#clients.delete(client);
    destroyConnection(client);
  }
}

const noCount = () => new SluiceError('source.unavailable', 'the server gave no count');

async function exportSnapshot(client: pg.Client, signal: AbortSignal): Promise<string> {
  const sql = 'SELECT pg_catalog.pg_export_snapshot() AS name';
  const [row] = await query<{ name: string }>(client, sql, signal);
  if (!row) throw new SluiceError('source.unavailable', 'the server gave no snapshot');
  return row.name;
}
