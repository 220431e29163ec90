import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { query } from './connection.ts';

/** Relations with a smaller one are the server's own. */
const firstUserOid = 16_384;

/**
 * SQL of whether a relation that this transaction has locked is not the one that its snapshot knows: since the
 * snapshot it was created, renamed, rewritten or truncated, or became a partition or ceased to be one.
 *
 * A snapshot is taken before the first lock. A statement that waits for the lock of such a change then reads
 * the changed relation, which looks empty: the rows that an ALTER TABLE or a TRUNCATE with new rows has written
 * belong to a later transaction. Once the relations are locked, none of this can happen any more.
 *
 * `pg_class` shows the moment of the snapshot, functions and names of objects show the present. `pg_locks` lists tables, partitions and
 * the tables of a view alike, and needs no right. A subquery for each of the few locks: a join would read all of `pg_class`.
 */
const anyReplacedSql = `EXISTS (
  SELECT FROM pg_catalog.pg_locks AS l
   WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation' AND l.relation >= '${firstUserOid}'
     AND (SELECT NULLIF(c.relfilenode, '0') IS NOT DISTINCT FROM pg_catalog.pg_relation_filenode(c.oid)
             AND c.relispartition = COALESCE(pg_catalog.pg_partition_root(c.oid) <> c.oid, false)
             AND CAST(CAST(c.relnamespace AS pg_catalog.regnamespace) AS pg_catalog.text) || '.' || pg_catalog.quote_ident(c.relname)
                 = (pg_catalog.pg_identify_object(1259, c.oid, 0)).identity
            FROM pg_catalog.pg_class AS c WHERE c.oid = l.relation) IS NOT TRUE)`;

export const oidOf = (name: string): string =>
  `CAST(CAST('${name.replaceAll("'", "''")}' AS pg_catalog.regclass) AS pg_catalog.oid)`;

/** Transient: the next snapshot shows the tables as they are then. */
export function tablesReplaced(): SluiceError {
  const detail = 'a table was rewritten, truncated or replaced while the rows were looked for';
  return new SluiceError('source.unavailable', detail);
}

export async function areTablesReplaced(client: pg.Client, signal: AbortSignal): Promise<boolean> {
  const sql = `SELECT ${anyReplacedSql} AS replaced`;
  const [row] = await query<{ replaced: boolean }>(client, sql, signal);
  return row?.replaced !== false;
}
