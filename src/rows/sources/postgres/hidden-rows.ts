import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { quoteText } from '../../query/print.ts';
import { query } from './connection.ts';
import { oidOf } from './replaced-tables.ts';
import { tenantSetting } from './source-role.ts';

export interface ReadRelation {
  readonly schema: string;
  readonly table: string;
  readonly name: string;
  readonly tenantColumn: string;
  /** The operator said that policies may leave out rows. */
  readonly isFiltered: boolean;
  /** True if an expression of the model may call a function that is not built in. */
  readonly callsFunctions: boolean;
}

/** Policies that apply when a role reads a table, and are not dropped since the snapshot. */
const policiesOf = (table: string, mayUse: string): string =>
  `pg_catalog.pg_policy AS p WHERE p.polrelid = ${table} AND p.polcmd IN ('*', 'r') AND p.polqual IS NOT NULL
     AND (pg_catalog.pg_identify_object(3256, p.oid, 0)).identity IS NOT NULL
     AND EXISTS (SELECT FROM pg_catalog.unnest(p.polroles) AS r (id) WHERE r.id = '0' OR ${mayUse})`;

/**
 * The policy `p` leaves out no row of the project: it is `true`, or compares the tenant column with the project that the
 * transaction names; behind a view, the column of that name. The server prints all in one form.
 */
function isOpen({ tenantColumn }: ReadRelation): string {
  const quoted = tenantColumn.replaceAll('"', '""');
  const names = [`"${quoted}"`, tenantColumn].map((name) =>
    name.replace(/[^\p{L}\p{N}_]/gu, '\\$&'),
  );
  const pattern = `^(true|\\(\\(?(${names.join('|')})(\\)::text)? = \\(*(NULLIF\\()?current_setting\\('${tenantSetting}'::text(, (true|false))?\\)(, ''::text\\))?(\\)::[a-z]+)?\\))$`;
  return `(pg_catalog.pg_get_expr(p.polqual, p.polrelid) ~ ${quoteText(pattern)})`;
}

/** SQL of whether a policy hides rows in this transaction. If not, PostgreSQL refuses to read a table that has one. */
export const passesPolicies = `pg_catalog.current_setting('row_security') = 'on'`;

/**
 * Off if no policy applies to what is read: then PostgreSQL refuses each other table with a policy for its reader, also
 * if a function reads it (`check_enable_rls`, SQLSTATE 42501). On if one applies: then `findHidden` judges the policies.
 * @param isThorough whether relations behind views count too. If not, reading such a view fails as a function's table
 * does
 */
export function rowSecuritySql(relations: readonly ReadRelation[], isThorough: boolean): string {
  const applies = relations.map((relation) => {
    if (relation.isFiltered) return 'true';
    const own = `pg_catalog.row_security_active(${oidOf(relation.name)})`;
    return isThorough ? `${own} OR EXISTS (${guardedSql(relation, viewedOnly)})` : own;
  });
  return `CASE WHEN ${applies.join(' OR ') || 'false'} THEN 'on' ELSE 'off' END`;
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
 * run or look-back checks the new one.
 */
export function viewedRelationsSql({ name }: ReadRelation): string {
  return `WITH RECURSIVE viewed (id, reader, caller, view, is_kept) AS (
    SELECT c.oid, me.oid, me.oid, c.oid, false FROM pg_catalog.pg_class AS c, pg_catalog.pg_roles AS me
     WHERE c.oid = ${oidOf(name)} AND me.rolname = current_user
    UNION
    SELECT d.refobjid,
           CASE WHEN v.relkind = 'v' AND EXISTS (
                  SELECT FROM pg_catalog.pg_options_to_table(v.reloptions) AS o
                   WHERE o.option_name = 'security_invoker' AND CAST(o.option_value AS pg_catalog.bool))
                THEN viewed.caller ELSE v.relowner END,
           CASE WHEN v.relkind = 'm' THEN v.relowner ELSE viewed.caller END,
           v.oid, viewed.is_kept OR v.relkind = 'm'
      FROM viewed
      JOIN pg_catalog.pg_class AS v ON v.oid = viewed.id AND v.relkind IN ('v', 'm')
      JOIN pg_catalog.pg_rewrite AS w ON w.ev_class = v.oid AND w.ev_type = '1'
      JOIN pg_catalog.pg_depend AS d ON d.classid = ${ofClass('pg_rewrite')} AND d.objid = w.oid
                                    AND d.refclassid = ${ofClass('pg_class')} AND d.refobjid <> v.oid)`;
}

/** A function that the operator of PostgreSQL wrote, in a language that can read tables; an aggregate calls others. */
const isWritten = `(p.prokind = 'a' OR p.prolang NOT IN (SELECT l.oid FROM pg_catalog.pg_language AS l WHERE l.lanname IN ('internal', 'c')))
     AND p.oid >= '16384'`;

/**
 * With each table with policies that a function behind a view or in an expression could read. PostgreSQL does not record
 * what a function reads, so each table counts that its role may read. No error stops these: `row_security` is on, they
 * turn it on, or a REFRESH has called them.
 */
const withFunctions = ({ callsFunctions }: ReadRelation) => `,
  called (view, caller, function) AS (
    SELECT v.oid, CASE WHEN v.relkind = 'm' THEN v.relowner ELSE viewed.caller END,
           pg_catalog.min(CAST(CAST(p.oid AS pg_catalog.regprocedure) AS pg_catalog.text))
      FROM viewed
      JOIN pg_catalog.pg_class AS v ON v.oid = viewed.id AND v.relkind IN ('v', 'm')
      JOIN pg_catalog.pg_rewrite AS w ON w.ev_class = v.oid AND w.ev_type = '1'
      JOIN pg_catalog.pg_depend AS d ON d.classid = ${ofClass('pg_rewrite')} AND d.objid = w.oid
      LEFT JOIN pg_catalog.pg_operator AS o ON d.refclassid = ${ofClass('pg_operator')} AND o.oid = d.refobjid
      JOIN pg_catalog.pg_proc AS p ON p.oid = CASE WHEN d.refclassid = ${ofClass('pg_proc')} THEN d.refobjid ELSE o.oprcode END
     WHERE ${isWritten}
       AND (v.relkind = 'm' OR viewed.is_kept OR ${passesPolicies}
         OR EXISTS (SELECT FROM pg_catalog.unnest(p.proconfig) AS c (setting)
                     WHERE c.setting LIKE 'row_security=%' AND c.setting <> 'row_security=off'))
     GROUP BY 1, 2
    UNION ALL
    SELECT NULL, me.oid, 'in an expression of the model' FROM pg_catalog.pg_roles AS me
     WHERE me.rolname = current_user AND ${callsFunctions} AND ${passesPolicies}),
  reading (id, reader, view, function) AS (
    SELECT viewed.id, viewed.reader, viewed.view, CAST(NULL AS pg_catalog.text) FROM viewed
    UNION
    SELECT t.oid, r.id, called.view, called.function
      FROM called
      CROSS JOIN LATERAL (
        SELECT called.caller
        UNION
        SELECT p.proowner FROM pg_catalog.pg_proc AS p
         WHERE p.prosecdef AND ${isWritten} AND pg_catalog.has_function_privilege(called.caller, p.oid, 'EXECUTE')) AS r (id)
      JOIN pg_catalog.pg_class AS t
        ON t.relrowsecurity AND t.relkind IN ('r', 'p') AND pg_catalog.has_any_column_privilege(r.id, t.oid, 'SELECT'))`;

const viewedOnly = () => `,
  reading (id, reader, view, function) AS (
    SELECT viewed.id, viewed.reader, viewed.view, CAST(NULL AS pg_catalog.text) FROM viewed)`;

function guardedSql(relation: ReadRelation, readingOf: (relation: ReadRelation) => string): string {
  return `${viewedRelationsSql(relation)}${readingOf(relation)}
  SELECT ${nameOf('t')} AS "table", CASE WHEN reading.view <> t.oid THEN ${nameOf('v')} END AS view, u.rolname AS reader,
         reading.function AS "calledFunction", f.policies
    FROM reading
    JOIN pg_catalog.pg_class AS t ON t.oid = reading.id AND t.relkind IN ('r', 'p')
    LEFT JOIN pg_catalog.pg_class AS v ON v.oid = reading.view
    JOIN pg_catalog.pg_roles AS u ON u.oid = reading.reader
    CROSS JOIN LATERAL (
      SELECT COALESCE(pg_catalog.json_agg(pg_catalog.json_build_object(
               'name', p.polname, 'isPermissive', p.polpermissive, 'isOpen', ${isOpen(relation)}) ORDER BY p.polname), '[]') AS policies
        FROM ${policiesOf('t.oid', `pg_catalog.pg_has_role(u.oid, r.id, 'USAGE')`)}) AS f
   WHERE (t.relrowsecurity OR pg_catalog.row_security_active(t.oid)) AND NOT u.rolsuper AND NOT u.rolbypassrls
     AND (t.relforcerowsecurity OR NOT pg_catalog.pg_has_role(u.oid, t.relowner, 'USAGE'))
   ORDER BY reading.function IS NOT NULL, 1, 2, 3`;
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
  readonly calledFunction: string | null;
  readonly policies: readonly Policy[];
}

function narrowing(policies: readonly Policy[]): readonly string[] {
  const isShown = policies.some(({ isPermissive, isOpen: all }) => isPermissive && all);
  return policies
    .filter((policy) => !policy.isOpen && !(policy.isPermissive && isShown))
    .map(({ name }) => name);
}

function describeGuarded(guarded: Guarded, isFiltered: boolean): string | null {
  const { table, view, reader, calledFunction, policies } = guarded;
  if (calledFunction !== null && isFiltered) return null;
  const role = `the role ${reader}`;
  const through = calledFunction === null && view !== null;
  const as = through ? `${role}, with whose rights the view ${view} reads it` : role;
  const isShut = !policies.some(({ isPermissive }) => isPermissive);
  const names = narrowing(policies);
  if (!isShut && (isFiltered || names.length === 0)) return null;
  const which = isShut
    ? 'it is on, and no policy lets the role read'
    : `the ${names.length === 1 ? 'policy' : 'policies'} ${names.join(', ')} may leave out rows`;
  const hint =
    'Give the role BYPASSRLS, or set row_security: filtered in the model if only the rows that the policy shows are to be exported';
  if (calledFunction !== null) {
    const caller = view === null ? 'the function' : `the view ${view} calls the function`;
    return `row-level security may hide rows of ${table} from ${as}: ${which}, and ${caller} ${calledFunction}, which may read them. ${hint}`;
  }
  return isShut
    ? `row-level security hides every row of ${table} from ${as}: ${which}. Create a policy for the role, or give the role BYPASSRLS`
    : `row-level security may hide rows of ${table} from ${as}: ${which}. ${hint}`;
}

export async function findApplied(
  client: pg.Client,
  relation: ReadRelation,
  signal: AbortSignal,
): Promise<string | null> {
  const sql = guardedSql(relation, viewedOnly);
  const guarded = await query<Guarded & pg.QueryResultRow>(client, sql, signal);
  const named = guarded.flatMap(({ table, reader, policies }) =>
    policies.map(({ name }) => `the policy ${name} of ${table}, for the role ${reader}`),
  );
  if (named.length === 0) return null;
  const which = named.length === 1 ? named[0] : `one of these: ${named.join('; ')}`;
  return `row-level security raises it, by ${which}. Correct the policy, or give the role BYPASSRLS`;
}

/** Ask it in the transaction that has read the relation. @returns `source.unsupported`, or null */
export async function findHidden(
  client: pg.Client,
  relation: ReadRelation,
  signal: AbortSignal,
): Promise<SluiceError | null> {
  const sql = guardedSql(relation, withFunctions);
  const objects = await query<Guarded & pg.QueryResultRow>(client, sql, signal);
  for (const guarded of objects) {
    const detail = describeGuarded(guarded, relation.isFiltered);
    if (detail !== null) return new SluiceError('source.unsupported', detail);
  }
  return null;
}
