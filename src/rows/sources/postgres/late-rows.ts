import type pg from 'pg';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import { isWrittenSince } from '../../query/written-since.ts';
import type { EarlierExport, SecondLook } from '../source.ts';
import { inSnapshot } from './in-snapshot.ts';
import { begin } from './snapshot.ts';
import { nowhere, type PlannedRequest, type SettledAt } from './snapshot-connections.ts';
import { describeColumns, destroyConnection, query, withAbort } from './connection.ts';
import { findCulprit } from './culprit.ts';
import { toSourceError } from './errors.ts';
import { rowSecuritySql } from './hidden-rows.ts';
import { readKeys } from './copy-reader.ts';
import type { SelectPlan } from './plan.ts';
import { findRefusal } from './refusal.ts';
import { areTablesReplaced, tablesReplaced } from './replaced-tables.ts';

/**
 * Compares the keys of an interval, as a set, with those of an earlier look. If the set has changed, rows came, or rows
 * left, or both, or keys print otherwise: a label of an enum was renamed. No row came if there are not more rows and none of the interval
 * was written since: by a transaction at or after the snapshot's xmin (all transactions below had ended, including
 * subtransactions). That says nothing
 *
 * - if rows do not show their writer: the relation is a view, or the role may read some of its columns only;
 * - at another start of the server: a standby that was promoted without the last transactions gives their ids out again;
 * - if older rows may have appeared: a partition was attached, a table took another's name, row-level security decides.
 *
 * @param settled the server at which the interval settled
 */
export async function lookAgain(
  planned: PlannedRequest,
  earlier: EarlierExport,
  settled: SettledAt,
  signal: AbortSignal,
): Promise<SecondLook> {
  return withPlan(planned, settled, signal, async (client, select, snapshot) => {
    const { interval } = planned.request;
    const keys = await readKeys(client, select, interval, planned.options.blockBytes, signal);
    const now = { ...keys.set, snapshot };
    const isSame = now.count === earlier.count && now.digest === earlier.digest;
    if (isSame) return { now, mayHaveLateRows: false };
    const [, startedAt] = now.snapshot.split('@');
    const isSameStart = earlier.snapshot.split('@')[1] === startedAt;
    const isCertain =
      isSameStart &&
      now.count <= earlier.count &&
      (await countWrittenSince(client, select, interval, earlier, signal)) === '0' &&
      !(await mayShowOlderRows(client, earlier, signal));
    return { now, mayHaveLateRows: !isCertain };
  });
}

/** Says whether a row of the interval was written, or is gone, since an earlier export. Throws SluiceError. */
export async function haveRowsChanged(
  planned: PlannedRequest,
  earlier: EarlierExport,
  signal: AbortSignal,
): Promise<boolean> {
  return withPlan(planned, nowhere, signal, async (client, select) => {
    const { interval } = planned.request;
    const now = await readKeys(client, select, interval, planned.options.blockBytes, signal);
    if (now.count !== earlier.count) return true;
    return (await countWrittenSince(client, select, interval, earlier, signal)) !== '0';
  });
}

async function withPlan<T>(
  given: PlannedRequest,
  settled: SettledAt,
  signal: AbortSignal,
  work: (client: pg.Client, select: SelectPlan, snapshot: string) => Promise<T>,
): Promise<T> {
  const { options, plan, request } = given;
  const { relation, describeSql, select } = plan(request);
  const reader = { tenantKey: request.tenantKey, rowSecurity: rowSecuritySql([relation], true) };
  const { client, snapshot, serverStart } = await begin(options, reader, settled, [], signal);
  try {
    const described = await describeColumns(client, describeSql, signal);
    const planned = select(described);
    const done = await work(client, planned, `${snapshot}@${serverStart}`);
    if (await areTablesReplaced(client, signal)) throw tablesReplaced();
    const refusal = await findRefusal(client, relation, signal);
    if (refusal) throw refusal;
    return done;
  } catch (error) {
    // The search has the connection's place.
    destroyConnection(client);
    signal.throwIfAborted();
    throw await findCulprit(error, given, signal);
  } finally {
    destroyConnection(client);
  }
}

/** Says whether a table that the transaction has read may have rows that it did not show before, without having written them. */
async function mayShowOlderRows(
  client: pg.Client,
  { snapshot }: EarlierExport,
  signal: AbortSignal,
): Promise<boolean> {
  const [xmin = ''] = snapshot.split(':');
  const sql = `SELECT EXISTS (
    SELECT FROM pg_catalog.pg_locks AS l
     WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation'
       AND ((SELECT c.relrowsecurity OR ${isWrittenSince('c.xmin', xmin)}
               OR (SELECT ${isWrittenSince('n.xmin', xmin)} FROM pg_catalog.pg_namespace AS n WHERE n.oid = c.relnamespace)
              FROM pg_catalog.pg_class AS c WHERE c.oid = l.relation)
         OR EXISTS (SELECT FROM pg_catalog.pg_inherits AS i
                     WHERE i.inhrelid = l.relation AND ${isWrittenSince('i.xmin', xmin)}))) AS "may"`;
  const [row] = await query<{ may: boolean }>(client, sql, signal);
  return row?.may !== false;
}

/** The server's codes for a statement about `xmin` if a relation is a view, or the role may read some of its columns only. */
const withoutXmin: ReadonlySet<string> = new Set([
  'source.relation_missing',
  'source.permission_denied',
  'query.invalid',
]);

/** Null if the rows do not show their writer: the relation is a view or a foreign table, or the role may not see it. */
async function countWrittenSince(
  client: pg.Client,
  select: SelectPlan,
  interval: DataInterval,
  { snapshot }: EarlierExport,
  signal: AbortSignal,
): Promise<string | null> {
  const [xmin = ''] = snapshot.split(':');
  // Else the error would end the transaction, and nothing could be asked after it.
  await query(client, 'SAVEPOINT late', signal);
  try {
    const sql = select.countLateSql(interval, xmin);
    const [found] = await query<{ late: string }>(client, sql, signal);
    return found?.late ?? null;
  } catch (error) {
    if (!withoutXmin.has(toSourceError(error).code)) throw error;
    await query(client, 'ROLLBACK TO SAVEPOINT late', signal);
    return null;
  }
}

export async function findElsewhere(
  planned: PlannedRequest,
  keys: readonly (readonly (string | null)[])[],
  signal: AbortSignal,
): Promise<readonly (readonly (string | null)[])[]> {
  if (keys.length === 0) return [];
  const { options, plan, request } = planned;
  const { relation, describeSql, select } = plan({ ...request, select: 'keys' });
  const { tenantKey, interval } = request;
  return inSnapshot(options, tenantKey, relation, signal, async (client) => {
    const described = await describeColumns(client, describeSql, signal);
    const { columns, elsewhereSql } = select(described);
    if (columns.length === 0 || !elsewhereSql) return [];
    const text = elsewhereSql(interval, keys);
    const { rows } = await withAbort(client, signal, () =>
      client.query<(string | null)[]>({ text, rowMode: 'array' } satisfies pg.QueryArrayConfig),
    );
    return rows;
  }).catch(async (error: unknown) => {
    signal.throwIfAborted();
    throw await findCulprit(error, planned, signal);
  });
}
