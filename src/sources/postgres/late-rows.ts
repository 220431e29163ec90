import type pg from 'pg';
import type { DataInterval } from '../../domain/time.ts';
import type { EarlierExport, KeySet, SourceRequest } from '../source.ts';
import {
  describeColumns,
  destroyConnection,
  query,
  serverVersionOf,
  withAbort,
} from './connection.ts';
import { CopyReader } from './copy-reader.ts';
import { toSourceError } from './errors.ts';
import { findHidden } from './hidden-rows.ts';
import { KeyDigest } from './key-digest.ts';
import type { PlanSelect, SelectPlan } from './plan.ts';
import { checkTables } from './replaced-tables.ts';
import { RowBlockBuilder } from './row-blocks.ts';
import { beginSnapshot, type SettledAt, type SnapshotOptions } from './snapshot.ts';

/**
 * Whether the interval now has rows that an earlier export did not see. Compares its keys as a set. If the
 * set has changed and did not shrink, rows were added. If it shrank, rows were removed, and some may have
 * been added too: they were if a transaction at or after the snapshot's xmin wrote any row of the interval
 * (all transactions below had ended, including subtransactions). Rows of a view do not show their writer,
 * so every change counts. At another start of the server too: a standby that was promoted without the last
 * transactions gives their ids out again.
 *
 * @param settled the server at which the interval settled
 */
export async function findLateRows(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  earlier: EarlierExport,
  settled: SettledAt,
  signal: AbortSignal,
): Promise<boolean> {
  return withPlan(options, plan, request, settled, signal, async (client, select) => {
    const { interval } = request;
    const now = await readKeySet(client, select, interval, options.blockBytes, signal);
    const isSame =
      now.count === earlier.count && (earlier.digest === null || now.digest === earlier.digest);
    if (isSame) return false;
    return (
      now.count >= earlier.count ||
      (await wasStartedSince(client, earlier, signal)) ||
      wasWrittenSince(client, select, interval, earlier, signal)
    );
  });
}

/** Whether a row of the interval was written, or is gone, since an earlier export. Throws SluiceError. */
export async function haveRowsChanged(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  earlier: EarlierExport,
  signal: AbortSignal,
): Promise<boolean> {
  return withPlan(
    options,
    plan,
    request,
    { position: null, server: null },
    signal,
    async (client, select) => {
      const { interval } = request;
      const now = await readKeySet(client, select, interval, options.blockBytes, signal);
      return (
        now.count !== earlier.count || wasWrittenSince(client, select, interval, earlier, signal)
      );
    },
  );
}

/** Plans a request in a snapshot of its own. */
async function withPlan<T>(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  settled: SettledAt,
  signal: AbortSignal,
  work: (client: pg.Client, select: SelectPlan) => Promise<T>,
): Promise<T> {
  const { relation, describeSql, select } = plan(request);
  const client = await beginSnapshot(options, request.teamId, signal, settled);
  try {
    const described = await describeColumns(client, describeSql, signal);
    const done = await work(client, select(described, serverVersionOf(client)));
    await checkTables(client, signal);
    const hidden = await findHidden(client, relation, signal);
    if (hidden) throw hidden;
    return done;
  } catch (error) {
    signal.throwIfAborted();
    throw toSourceError(error);
  } finally {
    destroyConnection(client);
  }
}

/** False for the snapshots of earlier builds, which do not say it. */
async function wasStartedSince(
  client: pg.Client,
  { snapshot }: EarlierExport,
  signal: AbortSignal,
): Promise<boolean> {
  const [, start] = snapshot.split('@');
  if (start === undefined) return false;
  const sql = `SELECT extract(epoch FROM pg_postmaster_start_time())::text AS start`;
  const [row] = await query<{ start: string }>(client, sql, signal);
  return row?.start !== start;
}

async function wasWrittenSince(
  client: pg.Client,
  select: SelectPlan,
  interval: DataInterval,
  { snapshot }: EarlierExport,
  signal: AbortSignal,
): Promise<boolean> {
  const [xmin = ''] = snapshot.split(':');
  return (await countLate(client, select.countLateSql(interval, xmin), signal)) !== '0';
}

async function readKeySet(
  client: pg.Client,
  { keys }: SelectPlan,
  interval: DataInterval,
  blockBytes: number,
  signal: AbortSignal,
): Promise<KeySet> {
  const { columns, copySql } = keys ?? { columns: [], copySql: () => '' };
  const digest = new KeyDigest();
  const reader = new CopyReader([
    { sql: copySql(interval), builder: new RowBlockBuilder(columns, blockBytes) },
  ]);
  client.query(reader);
  for (;;) {
    const block = await withAbort(client, signal, () => reader.next());
    if (!block) return { digest: digest.read(), count: digest.count };
    const { offsets, lengths } = block;
    const fields = columns.map((_, field) => ({ offsets, lengths, width: columns.length, field }));
    digest.add(block.bytes, block.rowCount, fields);
  }
}

/** Null if the rows do not show their writer: the relation is a view or a foreign table. */
async function countLate(
  client: pg.Client,
  lateSql: string,
  signal: AbortSignal,
): Promise<string | null> {
  // Else the error would end the transaction, and nothing could be asked after it.
  await query(client, 'SAVEPOINT late', signal);
  try {
    const [found] = await query<{ late: string }>(client, lateSql, signal);
    return found?.late ?? null;
  } catch (error) {
    const { code } = toSourceError(error);
    if (code !== 'source.relation_missing' && code !== 'query.invalid') throw error;
    await query(client, 'ROLLBACK TO SAVEPOINT late', signal);
    return null;
  }
}
