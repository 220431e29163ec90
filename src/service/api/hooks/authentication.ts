import { notFound } from '../../../foundation/domain/problem.ts';
import { hashApiKey, isWellFormedApiKey, sameHash } from '../../../foundation/security/api-keys.ts';
import { allows, isOperatorScope } from '../../../foundation/security/scopes.ts';
import {
  findPresentedKey,
  type PresentedKey,
  type TenantKey,
  touchApiKey,
} from '../../../state/store/tenants/api-keys.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import type { Reach } from '../../../state/store/tenants/tenants.ts';
import { findProject, installationId, listProjects } from '../../../state/store/tenants/tenants.ts';
import type { Api, Request } from '../api.ts';
import { authenticationFailed, notAuthenticated, permissionDenied } from '../api-error.ts';
import type { FailedKeys } from './failed-keys.ts';

/** The means to check keys. */
export interface KeyCheck {
  readonly db: Sql;
  readonly failures: FailedKeys;
}

/**
 * Routes with a scope need a key. The order of the checks is that of the contract: the key, its scope,
 * then the organization or project of the path.
 */
export function requireKeys(api: Api, check: KeyCheck): void {
  for (const name of ['caller', 'reach', 'batchExport', 'step', 'notificationTarget'] as const) {
    api.decorateRequest(name, undefined);
  }
  api.addHook('onRequest', async (request) => {
    const { scope } = request.routeOptions.config;
    if (scope === undefined) return;
    const params = request.params as { project_id?: string; organization_id?: string };
    const projectId = projectIdOf(params.project_id);
    request.caller = await authenticate(check, request, bearerOf(request), projectId);
  });
}

/** Refuses requests that the key does not allow, and sets the reach of the others. */
export function requireAccess(api: Api, db: Sql): void {
  api.addHook('onRequest', async (request) => {
    const { scope, otherScope, operatorsMay } = request.routeOptions.config;
    const { caller } = request;
    if (scope === undefined || scope === 'any' || caller === undefined) return;
    if (operatorsMay && caller.organizationId === null) {
      if (!allows(caller.scopes, 'operator:read')) {
        throw permissionDenied('The API key lacks the scope operator:read.');
      }
      request.reach = await reachOfOperator(db, request.params as PathOwner);
      return;
    }
    if (isOperatorScope(scope) && caller.organizationId !== null) throw onlyOperators();
    if (!isOperatorScope(scope)) tenantOf(caller);
    if (!allows(caller.scopes, scope) && !(otherScope && allows(caller.scopes, otherScope))) {
      throw permissionDenied(`The API key lacks the scope ${scope}.`);
    }
    if (isOperatorScope(scope)) {
      request.reach = { organizationId: installationId, teamId: null };
    } else {
      request.reach = await decideReach(db, tenantOf(caller), request.params as PathOwner);
    }
  });
}

/** @throws ApiError 403 if the key is an operator's, or its organization is disabled */
export function tenantOf(caller: PresentedKey): TenantKey {
  const { organizationId } = caller;
  if (organizationId === null) {
    throw permissionDenied(
      'This is the key of an operator, which belongs to no organization. Use it for /api/admin, and to look at an export: its settings, runs, logs and coverage. For rows, files and changes, use a key of the organization.',
    );
  }
  if (caller.isDisabled) {
    throw permissionDenied('An operator has disabled this organization. Ask your operator.');
  }
  return { ...caller, organizationId };
}

export const onlyOperators = () =>
  permissionDenied(
    "This is not an operator's key. Without SLUICE_KEY, `sluice keys create --operator --scopes '*' --name operator` issues one on the machine of the service.",
  );

interface PathOwner {
  readonly project_id?: string;
  readonly organization_id?: string;
}

function bearerOf(request: Request): string {
  const { authorization } = request.headers;
  const [, key] = /^Bearer +(\S+) *$/i.exec(authorization ?? '') ?? [];
  if (key !== undefined) return key;
  throw authorization === undefined ? notAuthenticated() : authenticationFailed();
}

/** @throws ApiError 401; 429 if the address has failed too often */
export async function authenticate(
  { db, failures }: KeyCheck,
  { ip }: Request,
  key: string,
  projectId: number | null,
): Promise<PresentedKey> {
  if (!isWellFormedApiKey(key)) {
    failures.countMalformed(ip);
    throw authenticationFailed();
  }
  const hash = hashApiKey(key);
  const attempt = await failures.begin(ip, hash);
  const presented = await findPresentedKey(db, hash, projectId);
  if (!presented || presented.ended || !sameHash(presented.hash, hash)) {
    attempt.failed();
    throw authenticationFailed();
  }
  attempt.succeeded();
  if (presented.useIsStale) await touchApiKey(db, presented.id);
  return presented;
}

/** Null if the text cannot be the id of a project. */
function projectIdOf(text: string | undefined): number | null {
  const id = text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : 0;
  return id > 0 && id <= 2_147_483_647 ? id : null;
}

/** The project of the path, whosever it is. @throws Refusal 404 */
async function reachOfOperator(db: Sql, { project_id: id }: PathOwner): Promise<Reach> {
  const teamId = projectIdOf(id);
  const project = teamId === null ? null : await findProject(db, teamId);
  if (!project) throw notFound();
  return { organizationId: project.organizationId, teamId: project.id };
}

async function decideReach(db: Sql, caller: TenantKey, path: PathOwner): Promise<Reach> {
  const { organizationId, projectIds } = caller;
  if (path.organization_id !== undefined) {
    const organizationInPath = path.organization_id.toLowerCase();
    const isOwn = organizationInPath === '@current' || organizationInPath === organizationId;
    if (!isOwn || projectIds !== null) {
      throw permissionDenied('This API key has no access to the organization.');
    }
    return { organizationId, teamId: null };
  }
  const teamId =
    path.project_id === '@current'
      ? await currentProject(db, caller)
      : ownProject(caller, projectIdOf(path.project_id));
  if (teamId === null) throw permissionDenied('This API key has no access to the project.');
  return { organizationId, teamId };
}

function ownProject({ ownsProject, projectIds }: PresentedKey, id: number | null): number | null {
  return id !== null && ownsProject && (projectIds === null || projectIds.includes(id)) ? id : null;
}

/** Projects that an error names. */
const namedProjects = 10;

/**
 * The key's only project.
 *
 * @throws Refusal (403) that names the projects if there is not exactly one
 */
async function currentProject(db: Sql, { organizationId, projectIds }: TenantKey) {
  if (projectIds?.length === 1 && projectIds[0] !== undefined) return projectIds[0];
  const all = await listProjects(db, organizationId);
  const own = all.filter(({ id }) => projectIds === null || projectIds.includes(id));
  const [only] = own;
  if (only && own.length === 1) return only.id;
  if (!only) {
    throw permissionDenied(
      '@current is not a project: this API key has none. Create one with `sluice projects create --organization <id> --name <name>`.',
    );
  }
  const names = own.slice(0, namedProjects).map(({ id, name }) => `${id} (${name})`);
  const more = own.length > names.length ? ` and ${own.length - names.length} more` : '';
  throw permissionDenied(
    `@current is ambiguous: this API key has access to ${own.length} projects. Use the id of one in the path: ${names.join(', ')}${more}.`,
  );
}
