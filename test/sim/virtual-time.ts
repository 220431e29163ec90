/**
 * PostgreSQL in simulated time: a schema `sim` before `pg_catalog` in the search path, with functions
 * that shadow the clock and the random ids. The store's SQL calls them by their plain names; column
 * defaults, which were bound when the table was made, are bound again.
 */

import type { Pool } from 'pg';
import type { Instant } from '../../src/foundation/domain/time.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

export interface SimDatabase {
  readonly url: string;
  readonly pool: Pool;
  /** Empties the tables and starts the clock and the ids anew. */
  reset(now: Instant): Promise<void>;
  setTime(now: Instant): Promise<void>;
  drop(): Promise<void>;
}

const shadows = `
  create schema sim;
  create unlogged table sim.clock (at timestamptz not null);
  insert into sim.clock values (pg_catalog.now());
  create sequence sim.ids;
  create function sim.now() returns timestamptz language sql stable as 'select at from sim.clock';
  create function sim.clock_timestamp() returns timestamptz language sql stable as 'select at from sim.clock';
  create function sim.gen_random_uuid() returns uuid language sql volatile
    as $$ select pg_catalog.md5(pg_catalog.nextval('sim.ids')::text)::uuid $$;
  -- Each session of the store sets its search path, which would hide the shadows.
  create function sim.set_config(setting text, value text, is_local boolean) returns text language sql volatile
    as $$ select pg_catalog.set_config(setting,
      case setting when 'search_path' then 'sim, pg_catalog, public' else value end, is_local) $$`;

/** Each default that calls the clock or makes an id, as a statement that binds it to the shadow. */
const boundDefaults = `
  select format('alter table %s alter column %I set default %s', d.adrelid::regclass, a.attname,
           regexp_replace(pg_get_expr(d.adbin, d.adrelid), '(pg_catalog\\.)?\\m(now|clock_timestamp|gen_random_uuid)\\(', 'sim.\\2(', 'g')) as statement
    from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
    join pg_class c on c.oid = d.adrelid
   where c.relnamespace = 'public'::regnamespace
     and pg_get_expr(d.adbin, d.adrelid) ~ '\\m(now|clock_timestamp|gen_random_uuid)\\('`;

/** A database with our tables. Every connection to it that is made from now on has virtual time. */
export async function createSimDatabase(): Promise<SimDatabase> {
  const database = await createTestDatabase();
  await shadow(database);
  const client = await database.pool.connect();
  client.release(true);
  const { rows } = await database.sql<{ table: string }>`
    select c.oid::regclass::text as table from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
        and c.relname not in ('sluice_migrations', 'organizations', 'projects', 'installation')`;
  const tables = rows.map((row) => row.table);
  const truncate = `truncate ${tables.join(', ')}`;
  const deletes = tables.map((table) => `delete from ${table}`).join('; ');
  const remove = `begin; set local session_replication_role = replica; ${deletes}; commit`;
  let resets = 0;
  const setTime = async (now: Instant): Promise<void> => {
    await database.pool.query('update sim.clock set at = $1', [new Date(now).toISOString()]);
  };
  return {
    url: database.url,
    pool: database.pool,
    setTime,
    async reset(now) {
      resets += 1;
      // Deleting a few rows is far cheaper than new files for every table; now and then it is time for those.
      const clear = resets % 100 === 0 ? truncate : remove;
      await database.admin.query(`${clear}; delete from sim.clock; alter sequence sim.ids restart`);
      await database.pool.query('insert into sim.clock values ($1)', [new Date(now).toISOString()]);
    },
    drop: () => database.drop(),
  };
}

async function shadow({ pool }: TestDatabase): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query(shadows);
    const { rows } = await client.query<{ statement: string }>(boundDefaults);
    for (const { statement } of rows) await client.query(statement);
    const { rows: names } = await client.query<{ name: string }>(
      'select quote_ident(current_database()) as name',
    );
    // pg_catalog is searched first unless it is named: here `sim` comes before it.
    await client.query(
      `alter database ${names[0]?.name} set search_path = sim, pg_catalog, public`,
    );
  } finally {
    // It still has the old search path.
    client.release(true);
  }
}
