import type pg from 'pg';
import { SluiceError } from '../../domain/errors.ts';
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
 * `pg_class` shows the moment of the snapshot, functions show the present. `pg_locks` lists tables, partitions and the tables of a
 * view alike, and needs no right.
 */
export const tablesReplacedSql = `EXISTS (
  SELECT FROM pg_catalog.pg_locks AS l
    LEFT JOIN (pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace) ON c.oid = l.relation
   WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation' AND l.relation >= ${firstUserOid}
     AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
     AND (c.oid IS NULL
          OR NULLIF(c.relfilenode, 0) IS DISTINCT FROM pg_catalog.pg_relation_filenode(l.relation)
          OR c.relispartition IS DISTINCT FROM COALESCE(pg_catalog.pg_partition_root(l.relation) <> l.relation, false)
          OR (pg_catalog.pg_identify_object(1259, l.relation, 0)).identity
             IS DISTINCT FROM pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname)))`;

/** Transient: the next snapshot shows the tables as they are then. */
export function tablesReplaced(): SluiceError {
  return new SluiceError(
    'source.unavailable',
    'a table was rewritten, truncated or replaced while the rows were looked for',
  );
}

/**
 * After the relations of a transaction were read.
 *
 * @throws SluiceError `source.unavailable` if what was read may lack rows
 */
export async function checkTables(client: pg.Client, signal: AbortSignal): Promise<void> {
  const sql = `SELECT ${tablesReplacedSql} AS replaced`;
  const [row] = await query<{ replaced: boolean }>(client, sql, signal);
  if (row?.replaced !== false) throw tablesReplaced();
}
