import type pg from 'pg';
import { SluiceError } from '../../domain/errors.ts';
import type { RowBlock } from '../../domain/row-block.ts';
import type { DataInterval } from '../../domain/time.ts';
import type { KeySet, Slice, SourceRequest, SourceSnapshot } from '../source.ts';
import {
  type ConnectionOptions,
  closeConnection,
  connect,
  describeColumns,
  destroyConnection,
  query,
  withAbort,
} from './connection.ts';
import { CopyReader } from './copy-reader.ts';
import { KeyDigest, type KeyFields } from './key-digest.ts';
import { markOwnTransaction } from './live-transactions.ts';
import type { PlanSelect, SelectPlan } from './plan.ts';
import { hasReplayed } from './replay.ts';
import { RowBlockBuilder, type SourceBlock } from './row-blocks.ts';
import { nameLargeRow } from './row-too-large.ts';
import { tenantSetting } from './source-role.ts';

export interface SnapshotOptions extends ConnectionOptions {
  readonly statementTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly sliceMs: number;
  readonly blockBytes: number;
  /** A larger row is refused before it is held. */
  readonly maxRowBytes: number;
  readonly holdRow?: HoldRow;
}

/**
 * Waits until a row of so many bytes may be held.
 *
 * @returns a function to call once it is no longer held
 * @throws the signal's reason if it aborts
 */
export type HoldRow = (bytes: number, signal: AbortSignal) => Promise<() => void>;

/**
 * Opens the transaction, describes and counts. Throws SluiceError.
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
  const client = await begin(options, request.teamId, null, signal, position);
  try {
    const [id] = await query<{ exported: string; snapshot: string; encoding: string }>(
      client,
      `SELECT pg_export_snapshot() AS exported, pg_current_snapshot()::text AS snapshot,
              current_setting('server_encoding') AS encoding`,
      signal,
    );
    if (!id) throw new SluiceError('source.unavailable', 'the server gave no snapshot');
    if (id.encoding === 'SQL_ASCII') {
      throw new SluiceError(
        'source.unsupported',
        'its encoding is SQL_ASCII, so the encoding of its text is unknown',
      );
    }
    const select = await plan(request, (sql) => describeColumns(client, sql, signal));
    const totalCount = await count(client, select, request.interval, signal);
    return new PostgresSnapshot({ options, client, select, totalCount, ...id }, request);
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
  readonly exported: string;
  readonly snapshot: string;
}

/** Smaller rows are part of the memory that each run has. */
const freeRowBytes = 2 * 2 ** 20;

/** Holds the transaction. Parallel reads get their own connections, which share its snapshot. */
class PostgresSnapshot implements SourceSnapshot {
  readonly columns;
  readonly totalCount: number;
  readonly snapshot: string;
  readonly slices: readonly Slice[];
  readonly projection;
  readonly #opened: Opened;
  readonly #teamId: number;
  readonly #idle: pg.Client[];
  readonly #clients: Set<pg.Client>;
  readonly #keys = new KeyDigest();

  constructor(opened: Opened, { teamId, interval }: SourceRequest) {
    this.columns = opened.select.columns;
    this.projection = opened.select.projection;
    this.totalCount = opened.totalCount;
    this.snapshot = opened.snapshot;
    this.slices = sliceInterval(interval, opened.options.sliceMs);
    this.#opened = opened;
    this.#teamId = teamId;
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
    const { blockBytes, maxRowBytes, holdRow } = options;
    const hidden = select.hidden.length;
    const freeBytes = holdRow ? freeRowBytes : Number.POSITIVE_INFINITY;
    const builder = new RowBlockBuilder(select.columns, blockBytes, {
      hidden,
      maxRowBytes,
      freeBytes,
    });
    const hold = holdRow && ((bytes: number) => holdRow(bytes, signal));
    const reader = new CopyReader(select.copySql(slice), builder, hold);
    let whole = false;
    try {
      client.query(reader);
      for (;;) {
        const block = await withAbort(client, signal, () =>
          reader.next().catch((error) => nameLargeRow(error, select, maxRowBytes)),
        );
        if (!block) break;
        if (select.keys) this.#keys.add(block.bytes, block.rowCount, keyFields(select, block));
        yield block;
      }
      whole = true;
    } finally {
      reader.close();
      // A slice that was not read to its end leaves a running statement: its connection is lost.
      if (whole) this.#idle.push(client);
      else this.#drop(client);
    }
  }

  async close(): Promise<void> {
    const clients = [...this.#clients];
    this.#clients.clear();
    this.#idle.length = 0;
    await Promise.all(clients.map(closeConnection));
  }

  async #acquire(signal: AbortSignal): Promise<pg.Client> {
    const idle = this.#idle.pop();
    if (idle) return idle;
    const { options, exported } = this.#opened;
    const client = await begin(options, this.#teamId, exported, signal);
    this.#clients.add(client);
    return client;
  }

  #drop(client: pg.Client): void {
    this.#clients.delete(client);
    destroyConnection(client);
  }
}

/** The positions of the keys in a block of the plan's rows. */
function keyFields({ columns, hidden, keys }: SelectPlan, block: SourceBlock): KeyFields[] {
  const { offsets, lengths, hiddenOffsets, hiddenLengths } = block;
  const width = columns.length;
  return (keys?.places ?? []).map((field) =>
    field < width
      ? { offsets, lengths, width, field }
      : {
          offsets: hiddenOffsets,
          lengths: hiddenLengths,
          width: hidden.length,
          field: field - width,
        },
  );
}

/** A connection in a transaction with its own snapshot; `position` as for `openSnapshot`. */
export function beginSnapshot(
  options: SnapshotOptions,
  teamId: number,
  signal: AbortSignal,
  position: string | null = null,
): Promise<pg.Client> {
  return begin(options, teamId, null, signal, position);
}

/** A connection in a transaction with its own snapshot, or with an exported one. */
async function begin(
  options: SnapshotOptions,
  teamId: number,
  exported: string | null,
  signal: AbortSignal,
  position: string | null = null,
): Promise<pg.Client> {
  const client = await connect(options, signal);
  const statements = [
    'BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY',
    ...(exported === null ? [] : [`SET TRANSACTION SNAPSHOT '${exported}'`]),
    markOwnTransaction,
    ...sessionSettings(options, teamId).map(([name, value]) => `SET LOCAL ${name} = '${value}'`),
  ];
  try {
    if (position !== null && !(await hasReplayed(client, position, signal))) {
      throw new SluiceError('source.unavailable', 'the standby is behind the one that was settled');
    }
    await query(client, statements.join('; '), signal);
    return client;
  } catch (error) {
    destroyConnection(client);
    throw error;
  }
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

async function count(
  client: pg.Client,
  select: SelectPlan,
  range: DataInterval,
  signal: AbortSignal,
): Promise<number> {
  const [row] = await query<Record<string, string>>(client, select.countSql(range), signal);
  return Number(Object.values(row ?? {})[0]);
}

/** Cuts the interval into slices from its start; the last slice may be shorter. */
export function sliceInterval(interval: DataInterval, sliceMs: number): readonly Slice[] {
  const slices: Slice[] = [];
  for (let start = interval.start; start < interval.end; start += sliceMs) {
    slices.push({ start, end: Math.min(start + sliceMs, interval.end) });
  }
  return slices;
}
