import { Refusal } from '../../../foundation/domain/problem.ts';
import { tenantIdentityOf } from '../../../foundation/domain/tenant-key.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { queryFirst, queryOne, queryPage, queryRows, queryValues } from '../database/statement.ts';
import { escapeLike, type PageRequest } from '../database/lists.ts';
import { prepared } from '../database/prepared.ts';

export interface Organization {
  readonly id: string;
  readonly name: string;
  readonly createdAt: Timestamp;
  /** Since when an operator has disabled it; null: it is not. */
  readonly disabledAt: Timestamp | null;
}

/** The installation itself: its notification targets hear of all organizations. No list has it. */
export const installationId = '00000000-0000-0000-0000-000000000000';
export const isTenant = `id <> '${installationId}'`;

const organizationColumns = `id, name, created_at as "createdAt", disabled_at as "disabledAt"`;

export const insertOrganization = queryOne<Organization, [name: string]>(
  `insert into organizations (name) values ($1) returning ${organizationColumns}`,
);

interface EvenClosed {
  /** Also one that is being deleted. */
  readonly evenClosed?: boolean;
}

export const findOrganization = queryFirst<Organization, [id: string, more?: EvenClosed]>(
  `select ${organizationColumns} from organizations where id = $1 and ${isTenant} and ($2 or closed_at is null)`,
  (id, { evenClosed = false } = {}) => [id, evenClosed],
);

export interface Project {
  /** The team_id of everything it owns. */
  readonly id: number;
  /** The value of a model's tenant column for its rows. */
  readonly tenantKey: string;
  readonly organizationId: string;
  readonly name: string;
  /** Trusted by a customer's role when we assume it. */
  readonly externalId: string;
  readonly createdAt: Timestamp;
  readonly disabledAt: Timestamp | null;
}

/** SQL: what the tenant column of a model has for the project `table`. */
export const tenantKeyOf = (table: string): string =>
  `coalesce(${table}.tenant_key, ${table}.id::text) as "tenantKey"`;

export async function findTenantKey(sql: Sql, teamId: number): Promise<string> {
  const [row] = await sql.query<{ tenantKey: string }>(
    prepared(`select ${tenantKeyOf('p')} from projects p where p.id = $1`),
    [teamId],
  );
  if (!row) throw new Error(`there is no project ${teamId}`);
  return row.tenantKey;
}

const checkedKeys = 10_000;

/** Lists those of the projects that are not being deleted, oldest first. */
export const listTenantKeys = queryValues<string>(
  `select ${tenantKeyOf('p')} from projects p where p.closed_at is null order by p.id limit $1`,
  () => [checkedKeys],
);

const projectColumns = `id, ${tenantKeyOf('projects')}, organization_id as "organizationId", name, external_id as "externalId", created_at as "createdAt", disabled_at as "disabledAt"`;

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

export const findProject = queryFirst<Project, [id: number, more?: EvenClosed]>(
  `select ${projectColumns} from projects where id = $1 and ($2 or closed_at is null)`,
  (id, { evenClosed = false } = {}) => [id, evenClosed],
);

export const listProjects = queryRows<Project, [organizationId: string]>(
  `select ${projectColumns} from projects where organization_id = $1 and closed_at is null order by id`,
);

/** The reach of a request: one project, or all projects of an organization. */
export interface Reach {
  readonly organizationId: string;
  /** Null: the whole organization. */
  readonly teamId: number | null;
}

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

const rowOf = ({ organizationId, teamId }: Reach) =>
  teamId === null ? (['organizations', organizationId] as const) : (['projects', teamId] as const);

/** Disables or enables a tenant. @returns false if there is none */
export async function setDisabled(sql: Sql, tenant: Reach, disabled: boolean): Promise<boolean> {
  const [table, id] = rowOf(tenant);
  const changed = await sql.query(
    `update ${table} set disabled_at = case when $2 then coalesce(disabled_at, now()) end
      where id = $1 and closed_at is null returning id`,
    [id, disabled],
  );
  return changed.length > 0;
}

/** Gives a tenant another name. @returns the one before; null if there is no such tenant */
export async function setName(sql: Sql, tenant: Reach, name: string): Promise<string | null> {
  const [table, id] = rowOf(tenant);
  const [row] = await sql.query<{ before: string }>(
    `update ${table} t set name = $2
       from (select id, name from ${table} where id = $1 and closed_at is null for update) o
      where t.id = o.id returning o.name as before`,
    [id, name],
  );
  return row?.before ?? null;
}

/** SQL: whether an organization has the text of the parameter in its name, or as its id. `escapeLike` makes the value. */
export const matchesOrganization = (parameter: string): string =>
  `(${parameter}::text is null or name ilike '%' || ${parameter} || '%' or id::text = lower(${parameter}))`;

/** A page of the organizations that are not being deleted, by name. @param search part of a name, or an id */
export const listOrganizationPage = queryPage<
  Organization,
  [search: string | null, page: PageRequest]
>(
  `select ${organizationColumns}, count(*) over () as count from organizations
      where closed_at is null and ${isTenant} and ${matchesOrganization('$1')}
      order by lower(name), id limit $2 offset $3`,
  (search, { limit, offset }) => [escapeLike(search), limit, offset],
);
