import { Refusal } from '../domain/problem.ts';
import { tenantIdentityOf } from '../domain/tenant-key.ts';
import type { Timestamp } from '../domain/time.ts';
import type { Sql } from './database.ts';
import { prepared } from './prepared.ts';

export interface Organization {
  readonly id: string;
  readonly name: string;
  readonly createdAt: Timestamp;
}

const organizationColumns = `id, name, created_at as "createdAt"`;

export async function insertOrganization(sql: Sql, name: string): Promise<Organization> {
  const [row] = await sql.query<Organization>(
    `insert into organizations (name) values ($1) returning ${organizationColumns}`,
    [name],
  );
  if (!row) throw new Error('an insert returned no row');
  return row;
}

/** @param evenClosed also one that is being deleted */
export async function findOrganization(
  sql: Sql,
  id: string,
  { evenClosed = false } = {},
): Promise<Organization | null> {
  const [row] = await sql.query<Organization>(
    `select ${organizationColumns} from organizations where id = $1 and ($2 or closed_at is null)`,
    [id, evenClosed],
  );
  return row ?? null;
}

/** Those that are not being deleted. */
export async function listOrganizations(sql: Sql): Promise<Organization[]> {
  return sql.query<Organization>(
    `select ${organizationColumns} from organizations where closed_at is null order by created_at, id`,
  );
}

export interface Project {
  /** The team_id of everything it owns. */
  readonly id: number;
  /** What the tenant column of a model has for its rows. */
  readonly tenantKey: string;
  readonly organizationId: string;
  readonly name: string;
  /** Trusted by a customer's role when we assume it. */
  readonly externalId: string;
  readonly createdAt: Timestamp;
}

/** SQL: what the tenant column of a model has for the project `table`. */
export const tenantKeyOf = (table: string): string =>
  `coalesce(${table}.tenant_key, ${table}.id::text) as "tenantKey"`;

/** @throws Error if there is no such project */
export async function findTenantKey(sql: Sql, teamId: number): Promise<string> {
  const [row] = await sql.query<{ tenantKey: string }>(
    prepared(`select ${tenantKeyOf('p')} from projects p where p.id = $1`),
    [teamId],
  );
  if (!row) throw new Error(`there is no project ${teamId}`);
  return row.tenantKey;
}

/** Tenant keys that a check of the models looks at. */
const checkedKeys = 10_000;

/** Of the projects that are not being deleted, oldest first. */
export async function listTenantKeys(sql: Sql): Promise<readonly string[]> {
  const rows = await sql.query<{ tenantKey: string }>(
    `select ${tenantKeyOf('p')} from projects p where p.closed_at is null order by p.id limit $1`,
    [checkedKeys],
  );
  return rows.map(({ tenantKey }) => tenantKey);
}

const projectColumns = `id, ${tenantKeyOf('projects')}, organization_id as "organizationId", name, external_id as "externalId", created_at as "createdAt"`;

export interface NewProject {
  readonly organizationId: string;
  readonly name: string;
  /** Default: the project's id. */
  readonly tenantKey?: string | null;
}

/** @throws Refusal if another project has the same tenant key */
export async function insertProject(sql: Sql, project: NewProject): Promise<Project> {
  const key = project.tenantKey ?? null;
  const [row] = await sql.query<Project>(
    `insert into projects (organization_id, name, tenant_key, tenant_identity) values ($1, $2, $3, $4)
     on conflict (coalesce(tenant_identity, id::text)) do nothing returning ${projectColumns}`,
    [project.organizationId, project.name, key, key === null ? null : tenantIdentityOf(key)],
  );
  if (row) return row;
  const what = key === null ? 'the id of the new project as its tenant_key' : 'this tenant_key';
  throw new Refusal({
    code: 'conflict',
    detail: `Another project has ${what}. Enter the value that the tenant column has for this project's rows.`,
    attr: 'tenant_key',
  });
}

/** @param evenClosed also one that is being deleted */
export async function findProject(
  sql: Sql,
  id: number,
  { evenClosed = false } = {},
): Promise<Project | null> {
  const [row] = await sql.query<Project>(
    `select ${projectColumns} from projects where id = $1 and ($2 or closed_at is null)`,
    [id, evenClosed],
  );
  return row ?? null;
}

/** Those that are not being deleted, oldest first. */
export async function listProjects(sql: Sql, organizationId: string): Promise<Project[]> {
  return sql.query<Project>(
    `select ${projectColumns} from projects where organization_id = $1 and closed_at is null order by id`,
    [organizationId],
  );
}

/** What a request may see: one project, or all projects of an organization. */
export type Reach =
  | { readonly organizationId: string; readonly teamId: number }
  | { readonly organizationId: string; readonly teamId: null };

/** SQL that is true for the teams in reach, with its value as parameter `$number`. */
export function reaches(reach: Reach, column: string, number: number): string {
  return reach.teamId === null
    ? `${column} in (select id from projects where organization_id = $${number})`
    : `${column} = $${number}`;
}

/** The texts of a statement that requests send often: for the reach of a project, and of an organization. */
export function byReach(make: (reach: Reach) => string): (reach: Reach) => string {
  const ofProject = prepared(make({ organizationId: '', teamId: 0 }));
  const ofOrganization = prepared(make({ organizationId: '', teamId: null }));
  return ({ teamId }) => (teamId === null ? ofOrganization : ofProject);
}

export function reachValue(reach: Reach): string | number {
  return reach.teamId ?? reach.organizationId;
}
