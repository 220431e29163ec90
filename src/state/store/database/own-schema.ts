import type { Client } from 'pg';

export const migrationsTable = 'sluice_migrations';
const queueSchema = 'bullmq';

/** SQL: the first schema on the search path with our tables, else one that the role may use; null if there is none. */
const schemaOfTables = `(select n.nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relname = '${migrationsTable}' and c.relkind = 'r'
    and (n.nspname = any (pg_catalog.current_schemas(false)) or pg_catalog.has_schema_privilege(n.oid, 'usage'))
  order by pg_catalog.array_position(pg_catalog.current_schemas(false), n.nspname),
           pg_catalog.pg_has_role(c.relowner, 'usage') desc, c.oid limit 1)`;

/** SQL of the search path of a session to our own tables: whatever the role, the database or the server sets. */
export const ownPath = `coalesce(pg_catalog.quote_ident(${schemaOfTables}) || ', pg_temp', pg_catalog.current_setting('search_path'))`;

/** SQL of the queue's own schema, or ours: for a role that may not create schemas, if an administrator has made none. */
export const schemaOfQueue = `case
  when pg_catalog.to_regclass(pg_catalog.quote_ident(${schemaOfTables}) || '.job_dependency') is not null then ${schemaOfTables}
  when coalesce(
    (select pg_catalog.has_schema_privilege(oid, 'usage') from pg_catalog.pg_namespace where nspname = '${queueSchema}'),
    pg_catalog.has_database_privilege(pg_catalog.current_database(), 'create')) then '${queueSchema}'
  else coalesce(${schemaOfTables}, '${queueSchema}') end`;

export interface Schemas {
  /** Of our own tables; null if there are none yet. */
  readonly own: string | null;
  readonly database: string;
  readonly role: string;
  /** In which the role may create tables: those of its search path, in order. */
  readonly onPath: readonly string[];
  readonly others: readonly string[];
  readonly mayCreate: boolean;
}

export async function readSchemas(client: Client): Promise<Schemas> {
  const { rows } = await client.query<Schemas>(
    `select ${schemaOfTables} as own, current_database() as database, current_user as role,
            has_database_privilege(current_database(), 'create') as "mayCreate",
            array(select s::text from unnest(current_schemas(false)) with ordinality as p (s, position)
                   where has_schema_privilege(s, 'create') order by position) as "onPath",
            array(select nspname::text from pg_namespace
                   where nspname !~ '^pg_' and nspname not in ('information_schema', '${queueSchema}')
                     and nspname <> all (current_schemas(false)) and has_schema_privilege(oid, 'create')
                   order by nspname) as others`,
  );
  return rows[0] as Schemas;
}

/** The name of the schema that we make, or that an administrator makes for us. */
const usualName = 'sluice';

/** The schema that the search path leads to, else the one that it has. `refusal`: why there is none, with the remedy. */
export function chooseSchema(
  schemas: Schemas,
): { readonly name: string; readonly isNew: boolean } | { readonly refusal: string } {
  const { role, database, onPath, others, mayCreate } = schemas;
  const [first] = onPath;
  if (first !== undefined) return { name: first, isNew: false };
  const preferred = [role, usualName, 'public'].find((name) => others.includes(name));
  const [only] = others.length === 1 ? others : [];
  const chosen = preferred ?? only;
  if (chosen !== undefined) return { name: chosen, isNew: false };
  const names = { role: quoted(role), database: quoted(database) };
  if (others.length > 1) {
    return {
      refusal:
        `the role ${role} may create tables in several schemas (${others.join(', ')}), and its search path names none of them. ` +
        `Choose one, as ${role} or a superuser: ALTER ROLE ${names.role} IN DATABASE ${names.database} SET search_path = <schema>;`,
    };
  }
  if (mayCreate) return { name: usualName, isNew: true };
  return {
    refusal:
      `the role ${role} may create tables in no schema of the database ${database}. ` +
      `Run this there, as the owner of the database or a superuser: CREATE SCHEMA ${usualName} AUTHORIZATION ${names.role};`,
  };
}

/** A name as PostgreSQL reads it in a statement. */
export const quoted = (name: string): string =>
  /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
