import type pg from 'pg';
import { SluiceError } from '../../domain/errors.ts';
import { query } from './connection.ts';

const oidOf = (relation: string): string =>
  `CAST('${relation.replaceAll("'", "''")}' AS pg_catalog.regclass)`;

/** Whether the policy `p` is permissive, lets a role read, and is not dropped since the snapshot. */
const letsRead = (mayUse: string): string => `p.polpermissive AND p.polcmd IN ('*', 'r')
       AND (pg_catalog.pg_identify_object(3256, p.oid, 0)).identity IS NOT NULL
       AND EXISTS (SELECT FROM pg_catalog.unnest(p.polroles) AS r (id) WHERE r.id = 0 OR ${mayUse})`;

/**
 * SQL of whether row-level security hides every row of a relation from this role: it is on, and no permissive
 * policy lets the role read. PostgreSQL then shows an empty table instead of an error.
 *
 * Ask it in the transaction that has read the relation: what a policy allows cannot change under its lock.
 * `pg_policy` shows the moment of the snapshot, the names of objects show the present (as in `replaced-tables.ts`).
 * A policy that shows some rows is what the operator wants. What a view reads is another question: `findHiddenBehind`.
 *
 * @param relation its qualified name, quoted
 */
export function rowsHiddenSql(relation: string): string {
  const oid = oidOf(relation);
  return `(pg_catalog.row_security_active(${oid}) AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_policy AS p
     WHERE p.polrelid = ${oid} AND ${letsRead(`pg_catalog.pg_has_role(r.id, 'USAGE')`)}))`;
}

/** SQL of whether a relation is a view or a materialized view; null if it is newer than the snapshot. */
export function isViewSql(relation: string): string {
  return `(SELECT c.relkind IN ('v', 'm') FROM pg_catalog.pg_class AS c WHERE c.oid = ${oidOf(relation)})`;
}

const ofClass = (catalog: string): string => `CAST('pg_catalog.${catalog}' AS pg_catalog.regclass)`;

/**
 * The tables that a view reads, through other views too, each with the role whose policies apply: the owner of the
 * view that names it, or with `security_invoker` the caller. A materialized view has the rows that its owner saw.
 * A superuser, a role with BYPASSRLS and the owner of a table without FORCE see all rows.
 *
 * `pg_class` shows the moment of the snapshot. For tables that this role itself would be held back from,
 * `row_security_active` shows the present. A view that is replaced while its statement waits is checked as it was; the next
 * run or look-back checks the new one. What a function within a view reads cannot be known.
 */
function viewedSql(relation: string): string {
  return `WITH RECURSIVE viewed (id, reader, caller, view) AS (
    SELECT c.oid, me.oid, me.oid, c.oid FROM pg_catalog.pg_class AS c, pg_catalog.pg_roles AS me
     WHERE c.oid = ${oidOf(relation)} AND me.rolname = current_user
    UNION
    SELECT d.refobjid,
           CASE WHEN v.relkind = 'v' AND EXISTS (
                  SELECT FROM pg_catalog.pg_options_to_table(v.reloptions) AS o
                   WHERE o.option_name = 'security_invoker' AND CAST(o.option_value AS pg_catalog.bool))
                THEN viewed.caller ELSE v.relowner END,
           CASE WHEN v.relkind = 'm' THEN v.relowner ELSE viewed.caller END,
           v.oid
      FROM viewed
      JOIN pg_catalog.pg_class AS v ON v.oid = viewed.id AND v.relkind IN ('v', 'm')
      JOIN pg_catalog.pg_rewrite AS w ON w.ev_class = v.oid AND w.ev_type = '1'
      JOIN pg_catalog.pg_depend AS d ON d.classid = ${ofClass('pg_rewrite')} AND d.objid = w.oid
                                    AND d.refclassid = ${ofClass('pg_class')} AND d.refobjid <> v.oid)
  SELECT CAST(CAST(t.oid AS pg_catalog.regclass) AS pg_catalog.text) AS "table",
         CAST(CAST(viewed.view AS pg_catalog.regclass) AS pg_catalog.text) AS view, u.rolname AS reader
    FROM viewed
    JOIN pg_catalog.pg_class AS t ON t.oid = viewed.id AND t.relkind IN ('r', 'p') AND viewed.view <> t.oid
    JOIN pg_catalog.pg_roles AS u ON u.oid = viewed.reader
   WHERE (t.relrowsecurity OR pg_catalog.row_security_active(t.oid)) AND NOT u.rolsuper AND NOT u.rolbypassrls
     AND (t.relforcerowsecurity OR NOT pg_catalog.pg_has_role(u.oid, t.relowner, 'USAGE'))
     AND NOT EXISTS (SELECT FROM pg_catalog.pg_policy AS p
                      WHERE p.polrelid = t.oid AND ${letsRead(`pg_catalog.pg_has_role(u.oid, r.id, 'USAGE')`)})
   ORDER BY 1, 2, 3 LIMIT 1`;
}

function hiddenError(table: string, from: string): SluiceError {
  const detail = `row-level security hides every row of ${table} from ${from}: it is on, and no policy lets the role read. Create a policy for the role, or turn row-level security off for it (BYPASSRLS)`;
  return new SluiceError('source.unsupported', detail);
}

/** No interval may count as exported that only looks empty. */
export function rowsHidden(relation: string): SluiceError {
  return hiddenError(relation, 'the role of Sluice');
}

/**
 * Ask it in the transaction that has read the view.
 *
 * @returns why a role that the view reads with cannot see any row of a table behind it: `source.unsupported`; or null
 */
export async function findHiddenBehind(
  client: pg.Client,
  relation: string,
  signal: AbortSignal,
): Promise<SluiceError | null> {
  const [found] = await query<{ table: string; view: string; reader: string }>(
    client,
    viewedSql(relation),
    signal,
  );
  if (!found) return null;
  const { table, view, reader } = found;
  return hiddenError(table, `the role ${reader}, with whose rights the view ${view} reads it`);
}

/** @returns why the role cannot see any row of the relation, or of a table behind it: `source.unsupported`; or null */
export async function findHidden(
  client: pg.Client,
  relation: string,
  signal: AbortSignal,
): Promise<SluiceError | null> {
  const sql = `SELECT ${rowsHiddenSql(relation)} AS hidden, ${isViewSql(relation)} AS view`;
  const [row] = await query<{ hidden: boolean; view: boolean | null }>(client, sql, signal);
  if (row?.hidden !== false) return rowsHidden(relation);
  return row.view === false ? null : findHiddenBehind(client, relation, signal);
}
