import type { Timestamp } from '../domain/time.ts';
import type { Sql } from './database.ts';

export interface Organization {
  readonly id: string;
  readonly name: string;
  readonly createdAt: Timestamp;
}

const columns = `id, name, created_at as "createdAt"`;

export async function insertOrganization(sql: Sql, name: string): Promise<Organization> {
  const [row] = await sql.query<Organization>(
    `insert into organizations (name) values ($1) returning ${columns}`,
    [name],
  );
  if (!row) throw new Error('an insert returned no row');
  return row;
}

export async function findOrganization(sql: Sql, id: string): Promise<Organization | null> {
  const [row] = await sql.query<Organization>(
    `select ${columns} from organizations where id = $1`,
    [id],
  );
  return row ?? null;
}

export async function listOrganizations(sql: Sql): Promise<Organization[]> {
  return sql.query<Organization>(`select ${columns} from organizations order by created_at, id`);
}
