import type pg from 'pg';
import { SluiceError } from '../../domain/errors.ts';
import { query } from './connection.ts';

/**
 * SQL of whether row-level security hides every row of a relation from this role: it is on, and no permissive
 * policy lets the role read. PostgreSQL then shows an empty table instead of an error.
 *
 * Ask it in the transaction that has read the relation: what a policy allows cannot change under its lock.
 * `pg_policy` shows the moment of the snapshot, the names of objects show the present (as in `replaced-tables.ts`).
 * A policy that shows some rows is what the operator wants. A view reads with the rights of its owner.
 *
 * @param relation its qualified name, quoted
 */
export function rowsHiddenSql(relation: string): string {
  const oid = `CAST('${relation.replaceAll("'", "''")}' AS pg_catalog.regclass)`;
  return `(pg_catalog.row_security_active(${oid}) AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_policy AS p
     WHERE p.polrelid = ${oid} AND p.polpermissive AND p.polcmd IN ('*', 'r')
       AND (pg_catalog.pg_identify_object(3256, p.oid, 0)).identity IS NOT NULL
       AND EXISTS (SELECT FROM pg_catalog.unnest(p.polroles) AS r (id)
                    WHERE r.id = 0 OR pg_catalog.pg_has_role(r.id, 'USAGE'))))`;
}

/** No interval may count as exported that only looks empty. */
export function rowsHidden(relation: string): SluiceError {
  const detail = `row-level security hides every row of ${relation} from the role of Sluice: it is on, and no policy lets the role read. Create a policy for the role, or turn row-level security off for it (BYPASSRLS)`;
  return new SluiceError('source.unsupported', detail);
}

/** @throws SluiceError `source.unsupported` if the role cannot see any row of the relation */
export async function checkVisible(
  client: pg.Client,
  relation: string,
  signal: AbortSignal,
): Promise<void> {
  const sql = `SELECT ${rowsHiddenSql(relation)} AS hidden`;
  const [row] = await query<{ hidden: boolean }>(client, sql, signal);
  if (row?.hidden !== false) throw rowsHidden(relation);
}
