import type { Timestamp } from '../../foundation/domain/time.ts';
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
  readonly organizationId: string;
  readonly name: string;
  /** Trusted by a customer's role when we assume it. */
  readonly externalId: string;
  readonly createdAt: Timestamp;
}

const projectColumns = `id, organization_id as "organizationId", name, external_id as "externalId", created_at as "createdAt"`;

export async function insertProject(
  sql: Sql,
  project: { readonly organizationId: string; readonly name: string },
): Promise<Project> {
  const [row] = await sql.query<Project>(
    `insert into projects (organization_id, name) values ($1, $2) returning ${projectColumns}`,
    [project.organizationId, project.name],
  );
  if (!row) throw new Error('an insert returned no row');
  return row;
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
