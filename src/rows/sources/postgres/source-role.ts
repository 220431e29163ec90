import type { Client } from 'pg';
import type { Model } from '../../../foundation/domain/model.ts';
import { withClient } from './events-table.ts';

export const tenantSetting = 'sluice.tenant_key';

export interface SourceRole {
  readonly name: string;
  /** Secret. */
  readonly password: string;
  readonly maxConnections: number;
}

/**
 * It may read the relations of `models` and nothing else. Many processes may call it at once. @param connectionString of
 * a superuser, in the database of the relations @param models a relation that does not exist yet gets no grant @param
 * eventsOf a model whose rows only their own project's transactions may see; null if there is none
 */
export async function ensureSourceRole(
  connectionString: string,
  role: SourceRole,
  models: readonly Model[],
  eventsOf: Model | null,
): Promise<void> {
  await withClient(connectionString, 'sluice-migrate', async (client) => {
    await client.query('begin');
    await client.query('select pg_advisory_xact_lock(7140551093)');
    await setRole(client, role);
    await grantRelations(client, role.name, models);
    if (eventsOf) await separateTenants(client, role.name, eventsOf);
    await client.query('commit');
  });
}

async function setRole(client: Client, role: SourceRole): Promise<void> {
  const { rowCount } = await client.query('select from pg_roles where rolname = $1', [role.name]);
  const name = client.escapeIdentifier(role.name);
  if (rowCount === 0) await client.query(`create role ${name}`);
  await client.query(
    `alter role ${name} with login password ${client.escapeLiteral(role.password)} nosuperuser nobypassrls
       nocreatedb nocreaterole noreplication connection limit ${role.maxConnections}`,
  );
  await client.query(`alter role ${name} set default_transaction_read_only = on`);
  // To settle an interval, it must see when the transactions of other roles began.
  await client.query(`grant pg_read_all_stats to ${name}`);
}

const granted = `
  select c.oid, format('%I.%I', n.nspname, c.relname) as name, quote_ident(n.nspname) as schema
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where c.relkind in ('r', 'p', 'v', 'm', 'f')`;

interface GrantedRelation {
  readonly name: string;
  readonly schema: string;
}

async function grantRelations(
  client: Client,
  role: string,
  models: readonly Model[],
): Promise<void> {
  const name = client.escapeIdentifier(role);
  const held = await client.query<GrantedRelation>(
    `${granted} and exists (select from aclexplode(c.relacl) as acl
                             where acl.grantee = (select oid from pg_roles where rolname = $1))`,
    [role],
  );
  const needed = await client.query<GrantedRelation>(
    `${granted} and (n.nspname, c.relname) in (select * from unnest($1::name[], $2::name[]))`,
    [models.map(({ relation }) => relation.schema), models.map(({ relation }) => relation.name)],
  );
  const names = new Set(needed.rows.map((relation) => relation.name));
  for (const { name: relation } of held.rows) {
    if (!names.has(relation)) await client.query(`revoke all on ${relation} from ${name}`);
  }
  for (const { name: relation, schema } of needed.rows) {
    await client.query(`grant usage on schema ${schema} to ${name}`);
    await client.query(`grant select on ${relation} to ${name}`);
  }
}

/** A transaction that names no project fails, so that no export takes the rows for missing. Other roles see all. */
async function separateTenants(
  client: Client,
  role: string,
  { relation, tenantColumn }: Model,
): Promise<void> {
  const table = `${client.escapeIdentifier(relation.schema)}.${client.escapeIdentifier(relation.name)}`;
  const others = 'sluice_others';
  const tenant = `${role}_tenant`;
  const { rows } = await client.query<{ name: string }>(
    'select polname as name from pg_policy where polrelid = $1::regclass and polname = any ($2)',
    [table, [others, tenant]],
  );
  const readable = new Set(rows.map(({ name }) => name));
  if (readable.has(others) && readable.has(tenant)) return;
  // It waits for the readers of the table, and everything else waits for it.
  await client.query(`set local lock_timeout = '10s'`);
  if (!readable.has(others)) {
    await client.query(`create policy ${others} on ${table} using (true) with check (true)`);
    await client.query(`alter table ${table} enable row level security`);
  }
  const column = client.escapeIdentifier(tenantColumn);
  await client.query(
    `create policy ${client.escapeIdentifier(tenant)} on ${table} as restrictive
       to ${client.escapeIdentifier(role)} using (${column} = current_setting('${tenantSetting}')::int)`,
  );
}
