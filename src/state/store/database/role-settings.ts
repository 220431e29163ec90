import type { Client } from 'pg';
import { migrationsTable, ownPath } from './own-schema.ts';
import { pinnedSettings, withClients } from './sessions.ts';

/** For a pooler that lends sessions for one transaction: there no session of ours is set up, so the role has the settings. */
export interface RoleSettings {
  readonly role: string;
  readonly database: string;
  readonly missing: readonly string[];
  /** The search path that leads to our tables, if that of the role does not. */
  readonly path: string | null;
}

export async function readRoleSettings(address: string): Promise<RoleSettings> {
  return withClients([address], async ([client]) => read(client as Client));
}

async function read(client: Client): Promise<RoleSettings> {
  const pinned = Object.entries(pinnedSettings).map(([name, { value, instead }]) => {
    return { name, value, instead: instead ?? null };
  });
  // A setting of the role counts that a session does not show yet: the pooler may have opened it before.
  const { rows } = await client.query<RoleSettings>(
    `select session_user as role, current_database() as database,
            case when to_regclass('${migrationsTable}') is null then ${ownPath} end as path,
            coalesce((select json_agg(p.name) from json_to_recordset($1) as p (name text, value text, instead text)
                        join pg_settings s on lower(s.name) = p.name
                       where (p.instead is null or s.reset_val = p.instead)
                         and format('%s=%s', p.name, p.value) <> all (
                             select lower(split_part(each, '=', 1)) || '=' || split_part(each, '=', 2)
                               from pg_db_role_setting r join pg_database d on d.oid = r.setdatabase, unnest(r.setconfig) each
                              where d.datname = current_database() and r.setrole = quote_ident(session_user)::regrole)), '[]') as missing`,
    [JSON.stringify(pinned)],
  );
  return rows[0] as RoleSettings;
}

export const isComplete = ({ missing, path }: RoleSettings): boolean =>
  missing.length === 0 && path === null;

/** Any constant: two processes that change the settings of a role at once would fail. */
const lockId = 7_140_551_094;

/** SQL for the role itself, or for who may change it. */
export function alterRoleSql({ role, database, missing, path }: RoleSettings): string {
  const name = (text: string) => `"${text.replaceAll('"', '""')}"`;
  const values = [
    ...missing.map((setting) => `${setting} = '${pinnedSettings[setting]?.value ?? ''}'`),
    ...(path === null ? [] : [`search_path = ${path}`]),
  ];
  return values
    .map((value) => `ALTER ROLE ${name(role)} IN DATABASE ${name(database)} SET ${value};`)
    .join(' ');
}

/** Does nothing if the server does not let the role do it. @param address of PostgreSQL itself */
export async function pinRoleSettings(address: string): Promise<void> {
  await withClients([address], async ([given]) => {
    const client = given as Client;
    await client.query('begin isolation level read committed');
    await client.query('select pg_advisory_xact_lock($1)', [lockId]);
    const settings = await read(client);
    if (!isComplete(settings)) await client.query(alterRoleSql(settings));
    await client.query('commit');
  }).catch((error: unknown) => {
    if ((error as { code?: unknown }).code !== insufficientPrivilege) throw error;
  });
}

/** Then `sluice doctor` says what an administrator must do. */
const insufficientPrivilege = '42501';
