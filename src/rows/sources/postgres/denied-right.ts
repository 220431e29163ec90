import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { query } from './connection.ts';
import { serverErrorOf } from './errors.ts';
import { type ReadRelation, viewedRelationsSql } from './hidden-rows.ts';

interface DeniedRight {
  readonly reader: string;
  readonly grant: string;
  /** The view that reads with the rights of `reader`; null if the relation itself is read. */
  readonly view: string | null;
}

/**
 * A schema needs USAGE. A view finds the relations behind it by number, so these need SELECT alone, if only of some
 * columns. What a materialized view has read before is not read again.
 */
const deniedSql = (relation: ReadRelation): string => `${viewedRelationsSql(relation)}
  SELECT d.reader, d.view, d."grant" FROM (
    SELECT u.rolname AS reader, NULL AS view, pg_catalog.format('GRANT USAGE ON SCHEMA %I TO %I', n.nspname, u.rolname) AS "grant"
      FROM viewed JOIN pg_catalog.pg_class AS t ON t.oid = viewed.id AND viewed.view = viewed.id
      JOIN pg_catalog.pg_namespace AS n ON n.oid = t.relnamespace
      JOIN pg_catalog.pg_roles AS u ON u.oid = viewed.reader
     WHERE NOT pg_catalog.has_schema_privilege(u.oid, n.oid, 'USAGE')
    UNION ALL
    SELECT u.rolname, CASE WHEN viewed.view <> t.oid THEN pg_catalog.format('%I.%I', vn.nspname, v.relname) END,
           pg_catalog.format('GRANT SELECT ON %I.%I TO %I', n.nspname, t.relname, u.rolname)
      FROM viewed JOIN pg_catalog.pg_class AS t ON t.oid = viewed.id AND t.relkind IN ('r', 'p', 'v', 'm', 'f')
      JOIN pg_catalog.pg_namespace AS n ON n.oid = t.relnamespace
      JOIN pg_catalog.pg_class AS v ON v.oid = viewed.view
      JOIN pg_catalog.pg_namespace AS vn ON vn.oid = v.relnamespace
      JOIN pg_catalog.pg_roles AS u ON u.oid = viewed.reader
     WHERE NOT viewed.is_kept AND NOT pg_catalog.has_table_privilege(u.oid, t.oid, 'SELECT')
       AND (viewed.view = t.oid OR NOT pg_catalog.has_any_column_privilege(u.oid, t.oid, 'SELECT'))) AS d`;

/**
 * The role, the object and the GRANT. If no right of the relation is missing, the server's words name the object.
 * @param client a connection of the role, in a transaction
 */
export async function nameDeniedRight(
  error: SluiceError,
  client: pg.Client,
  relation: ReadRelation,
  signal: AbortSignal,
): Promise<SluiceError> {
  const { message = '', where = '' } = serverErrorOf(error) ?? {};
  // First: after a failure the transaction answers nothing more.
  const acting = await findActing(client, where, signal);
  const rights = await findDeniedRights(client, relation, signal).catch(() => []);
  const [first] = rights;
  const words = error.detail ?? '';
  if (first === undefined) {
    if (acting === null) return new SluiceError(error.code, words, error);
    const { role, quoted } = acting;
    const grant = (await isReadable(client, message, role, signal).catch(() => false))
      ? null
      : grantFor(message, quoted, await findNamed(client, message, role, signal).catch(() => []));
    const detail = grant === null ? words : `${words}. ${grant}`;
    return new SluiceError(error.code, detail, error);
  }
  const through = first.view === null ? '' : `, with whose rights the view ${first.view} reads`;
  const detail = `${words}, for the role ${first.reader}${through}. ${first.grant}`;
  return new SluiceError(error.code, detail, error);
}

interface ActingRole {
  readonly role: string;
  readonly quoted: string;
}

/** A call in a context: PL/pgSQL gives the types of a function, other languages its name alone. */
const callWithTypes = /^PL\/\S+ (?:\S+ )??((?:\S+\.)?"?([^\s".(]+)"?\([^()]*\))(?= |$)/;
const callByName = /^(?:SQL|PL)\S* (?:\S+ )?["»„“]([\w$]+)["»«“”]/;

/** SQL of the calls `$1` (types) and `$2` (names), the innermost first: the innermost with a function that is SECURITY DEFINER. */
const lendingSql = `SELECT count(DISTINCT CASE WHEN p.prosecdef THEN p.proowner ELSE 0 END) = 1 AS "isSure", min(o.rolname) AS role,
       min(quote_ident(o.rolname)) AS quoted
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS c (signature, name, at)
  JOIN pg_proc AS p ON p.proname = c.name AND (c.signature IS NULL OR p.oid::regprocedure::text = c.signature)
  JOIN pg_roles AS o ON o.oid = p.proowner
 GROUP BY c.at HAVING bool_or(p.prosecdef) ORDER BY c.at LIMIT 1`;

/**
 * The owner of the innermost function that is SECURITY DEFINER, else the role of the session. @param context that the
 * server gave with the error @returns null if that is not sure: functions of one name differ in it
 */
async function findActing(
  client: pg.Client,
  context: string,
  signal: AbortSignal,
): Promise<ActingRole | null> {
  const calls = context.split('\n').flatMap((line) => {
    const [, signature = null, name = callByName.exec(line)?.[1]] = callWithTypes.exec(line) ?? [];
    return name === undefined ? [] : [{ signature, name }];
  });
  type Lending = ActingRole & { readonly isSure: boolean };
  const [lending] = await query<Lending>(client, lendingSql, signal, [
    calls.map(({ signature }) => signature),
    calls.map(({ name }) => name),
  ]);
  if (lending) return lending.isSure ? lending : null;
  // A setting may have changed it.
  const own = 'SELECT current_user AS role, quote_ident(current_user) AS quoted';
  return (await query<ActingRole & pg.QueryResultRow>(client, own, signal))[0] ?? null;
}

/** If so, a function wants another right, such as to write or to lock. */
async function isReadable(
  client: pg.Client,
  message: string,
  role: string,
  signal: AbortSignal,
): Promise<boolean> {
  const [, name] = /permission denied for table "?([^\s"]+)"?$/.exec(message) ?? [];
  if (name === undefined) return false;
  const sql = `SELECT bool_and(has_table_privilege($2, c.oid, 'SELECT')) AS "isReadable" FROM pg_class AS c
                WHERE c.relkind IN ('r', 'p') AND c.relname = $1`;
  const rows = await query<{ isReadable: boolean | null }>(client, sql, signal, [name, role]);
  return rows[0]?.isReadable === true;
}

export function findDeniedRights(
  client: pg.Client,
  relation: ReadRelation,
  signal: AbortSignal,
): Promise<readonly DeniedRight[]> {
  return query<DeniedRight & pg.QueryResultRow>(client, deniedSql(relation), signal);
}

const rights: Readonly<Record<string, string>> = {
  table: 'SELECT ON',
  view: 'SELECT ON',
  'materialized view': 'SELECT ON',
  'foreign table': 'SELECT ON',
  schema: 'USAGE ON SCHEMA',
  type: 'USAGE ON TYPE',
  'foreign server': 'USAGE ON FOREIGN SERVER',
  sequence: 'SELECT ON SEQUENCE',
  'large object': 'SELECT ON LARGE OBJECT',
  language: 'USAGE ON LANGUAGE',
  function: 'EXECUTE ON FUNCTION',
  procedure: 'EXECUTE ON PROCEDURE',
  database: 'CONNECT ON DATABASE',
};

/** SQL of the names, with their schemas, of what has the name `$1` and what the role `$2` may not use. */
const namedSqls: Readonly<Record<string, string>> = {
  function: `SELECT format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)) AS name
    FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
   WHERE p.proname = $1 AND NOT has_function_privilege($2, p.oid, 'EXECUTE') LIMIT 2`,
  sequence: `SELECT format('%I.%I', n.nspname, c.relname) AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
   WHERE c.relname = $1 AND c.relkind = 'S' AND NOT has_sequence_privilege($2, c.oid, 'SELECT') LIMIT 2`,
  table: `SELECT format('%I.%I', n.nspname, c.relname) AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
   WHERE c.relname = $1 AND c.relkind IN ('r', 'p', 'f', 'v', 'm') AND NOT has_table_privilege($2, c.oid, 'SELECT') LIMIT 2`,
};

/** A message has no schema. If several things have its name, none of them is what it is about for sure. */
async function findNamed(
  client: pg.Client,
  message: string,
  role: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { kind = '', name = '' } = readDenied(message) ?? {};
  const sql = namedSqls[/table|view/.test(kind) ? 'table' : kind];
  if (sql === undefined) return [];
  const rows = await query<{ name: string }>(client, sql, signal, [name, role]);
  return rows.map((row) => row.name);
}

function readDenied(message: string): { readonly kind: string; readonly name: string } | null {
  const [, kind, name] = /permission denied for ([a-z ]+?) "?([^\s"]+)"?$/.exec(message) ?? [];
  return kind === undefined || name === undefined ? null : { kind, name };
}

/** Null if it is another language or right. @param named what it could be about, with its schema */
export function grantFor(
  message: string,
  role: string,
  named: readonly string[] = [],
): string | null {
  const denied = readDenied(message);
  const right = denied && rights[denied.kind];
  if (!denied || right === undefined || right === null) return null;
  const [only = denied.name] = named.length === 1 ? named : [];
  return `GRANT ${right} ${only} TO ${role}`;
}
