import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { query } from './connection.ts';
import { oidOf } from './replaced-tables.ts';
import { tenantSetting } from './source-role.ts';

/** Whose rows are read. */
export interface ReadRelation {
  /** The qualified name, quoted. */
  readonly name: string;
  /** Whether the operator said that policies may leave out rows (`row_security: filtered`). */
  readonly isFiltered: boolean;
}

/** Policies that apply when a role reads a table, and are not dropped since the snapshot. */
const policiesOf = (table: string, mayUse: string): string =>
  `pg_catalog.pg_policy AS p WHERE p.polrelid = ${table} AND p.polcmd IN ('*', 'r') AND p.polqual IS NOT NULL
     AND (pg_catalog.pg_identify_object(3256, p.oid, 0)).identity IS NOT NULL
     AND EXISTS (SELECT FROM pg_catalog.unnest(p.polroles) AS r (id) WHERE r.id = '0' OR ${mayUse})`;

/**
 * SQL of whether the policy `p` leaves out no row of the project: it is `true`, or it compares a column with the
 * project that the transaction names. The server prints the expression, always in the same form.
 */
const isOpen = `(pg_catalog.pg_get_expr(p.polqual, p.polrelid) ~
  '^(true|\\(\\(?("[^"]+"|[a-z_0-9]+)(\\)::text)? = \\(*(NULLIF\\()?current_setting\\(''${tenantSetting}''::text(, (true|false))?\\)(, ''''::text\\))?(\\)::[a-z]+)?\\))$')`;

const ownPolicies = (name: string): string =>
  policiesOf(oidOf(name), `pg_catalog.pg_has_role(r.id, 'USAGE')`);

/**
 * SQL of whether row-level security may keep rows of a relation from this role. PostgreSQL shows fewer rows then, or an empty
 * table, instead of an error. `findHidden` says which policy does.
 *
 * Ask it in the transaction that has read the relation: what a policy allows cannot change under its lock.
 * `pg_policy` shows the moment of the snapshot, the names of objects show the present (as in `replaced-tables.ts`).
 * What a view reads is another question.
 */
export function rowsHiddenSql({ name, isFiltered }: ReadRelation): string {
  const permissive = isFiltered ? 'p.polpermissive' : `p.polpermissive AND ${isOpen}`;
  const narrows = `EXISTS (SELECT FROM ${ownPolicies(name)} AND NOT p.polpermissive AND NOT ${isOpen})`;
  return `(pg_catalog.row_security_active(${oidOf(name)})
    AND (NOT EXISTS (SELECT FROM ${ownPolicies(name)} AND ${permissive})${isFiltered ? '' : ` OR ${narrows}`}))`;
}

/** SQL of whether a relation is a view or a materialized view; null if it is newer than the snapshot. */
export function isViewSql({ name }: ReadRelation): string {
  return `(SELECT c.relkind IN ('v', 'm') FROM pg_catalog.pg_class AS c WHERE c.oid = ${oidOf(name)})`;
}

const ofClass = (catalog: string): string => oidOf(`pg_catalog.${catalog}`);

const nameOf = (table: string): string =>
  `(SELECT pg_catalog.format('%I.%I', n.nspname, ${table}.relname) FROM pg_catalog.pg_namespace AS n
     WHERE n.oid = ${table}.relnamespace)`;

/**
 * The CTE `viewed`: the relation and what a view reads, through other views too, each with the role whose policies apply: the owner of
 * the view that names it, or with `security_invoker` the caller. A materialized view has the rows that its owner saw.
 * A superuser, a role with BYPASSRLS and the owner of a table without FORCE see all rows.
 *
 * `pg_class` shows the moment of the snapshot. For tables that this role itself would be held back from,
 * `row_security_active` shows the present. A view that is replaced while its statement waits is checked as it was; the next
 * run or look-back checks the new one. What a function within a view reads cannot be known.
 */
export function viewedRelationsSql({ name }: ReadRelation): string {
  return `WITH RECURSIVE viewed (id, reader, caller, view) AS (
    SELECT c.oid, me.oid, me.oid, c.oid FROM pg_catalog.pg_class AS c, pg_catalog.pg_roles AS me
     WHERE c.oid = ${oidOf(name)} AND me.rolname = current_user
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
                                    AND d.refclassid = ${ofClass('pg_class')} AND d.refobjid <> v.oid)`;
}

/** Those whose policies leave out rows: the policies as JSON, none if no policy lets the role read. */
function guardedSql(relation: ReadRelation): string {
  return `${viewedRelationsSql(relation)}
  SELECT ${nameOf('t')} AS "table", CASE WHEN viewed.view <> t.oid THEN ${nameOf('v')} END AS view, u.rolname AS reader,
         f.policies
    FROM viewed
    JOIN pg_catalog.pg_class AS t ON t.oid = viewed.id AND t.relkind IN ('r', 'p')
    JOIN pg_catalog.pg_class AS v ON v.oid = viewed.view
    JOIN pg_catalog.pg_roles AS u ON u.oid = viewed.reader
    CROSS JOIN LATERAL (
      SELECT COALESCE(pg_catalog.json_agg(pg_catalog.json_build_object(
               'name', p.polname, 'isPermissive', p.polpermissive, 'isOpen', ${isOpen}) ORDER BY p.polname), '[]') AS policies
        FROM ${policiesOf('t.oid', `pg_catalog.pg_has_role(u.oid, r.id, 'USAGE')`)}) AS f
   WHERE (t.relrowsecurity OR pg_catalog.row_security_active(t.oid)) AND NOT u.rolsuper AND NOT u.rolbypassrls
     AND (t.relforcerowsecurity OR NOT pg_catalog.pg_has_role(u.oid, t.relowner, 'USAGE'))
   ORDER BY 1, 2, 3`;
}

interface Policy {
  readonly name: string;
  readonly isPermissive: boolean;
  readonly isOpen: boolean;
}

interface Guarded {
  readonly table: string;
  /** Null: the relation itself is read, by the role of Sluice. */
  readonly view: string | null;
  readonly reader: string;
  readonly policies: readonly Policy[];
}

/** The names of the policies that may leave out rows. */
function narrowing(policies: readonly Policy[]): readonly string[] {
  const isShown = policies.some(({ isPermissive, isOpen: all }) => isPermissive && all);
  return policies
    .filter((policy) => !policy.isOpen && !(policy.isPermissive && isShown))
    .map(({ name }) => name);
}

function describeGuarded({ table, view, reader, policies }: Guarded, isFiltered: boolean) {
  const role = `the role ${reader}`;
  const as = view === null ? role : `${role}, with whose rights the view ${view} reads it`;
  if (!policies.some(({ isPermissive }) => isPermissive)) {
    return `row-level security hides every row of ${table} from ${as}: it is on, and no policy lets the role read. Create a policy for the role, or give the role BYPASSRLS`;
  }
  const names = narrowing(policies);
  if (isFiltered || names.length === 0) return null;
  const which = names.length === 1 ? `the policy ${names[0]}` : `the policies ${names.join(', ')}`;
  return `row-level security may hide rows of ${table} from ${as}: ${which} may leave out rows. Give the role BYPASSRLS, or set row_security: filtered in the model if only the rows that the policy shows are to be exported`;
}

/**
 * Ask it in the transaction that has read the relation.
 *
 * @returns why the role does not see all rows of the relation, or of a table behind it: `source.unsupported`; or null
 */
export async function findHidden(
  client: pg.Client,
  relation: ReadRelation,
  signal: AbortSignal,
): Promise<SluiceError | null> {
  const found = await query<{ readonly table: string } & Guarded>(
    client,
    guardedSql(relation),
    signal,
  );
  for (const guarded of found) {
    const detail = describeGuarded(guarded, relation.isFiltered);
    if (detail !== null) return new SluiceError('source.unsupported', detail);
  }
  return null;
}

/** No interval may count as exported whose rows are hidden: the policy that hides them was created in this moment. */
export function rowsHidden({ name }: ReadRelation): SluiceError {
  return new SluiceError(
    'source.unsupported',
    `row-level security may hide rows of ${name} from the role of Sluice. Run sluice models check, which names the policy`,
  );
}
