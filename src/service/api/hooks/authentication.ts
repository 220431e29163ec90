import { orNotFound, Throttled } from '../../../foundation/domain/problem.ts';
import { hashApiKey, isWellFormedApiKey, sameHash } from '../../../foundation/security/api-keys.ts';
import { allows, isOperatorScope } from '../../../foundation/security/scopes.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import {
  findPresentedKey,
  type PresentedKey,
  type TenantKey,
  touchApiKey,
} from '../../../state/store/tenants/api-keys.ts';
import {
  findProject,
  installationId,
  listProjects,
  type Reach,
} from '../../../state/store/tenants/tenants.ts';
import type { Api, Request } from '../api.ts';
import { networkOf } from '../connections.ts';
import { authenticationFailed, notAuthenticated, permissionDenied } from '../errors.ts';

/** Finds which of these hashes belong to keys that exist and have not ended, as hexadecimal text. */
type FindKnown = (hashes: readonly Buffer[]) => Promise<ReadonlySet<string>>;

interface Bucket {
  left: number;
  /** On this process' steady clock, milliseconds. */
  at: number;
}

interface Waiting {
  readonly address: string;
  readonly hash: Buffer;
  readonly resolve: (known: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/** Oldest entries beyond this are forgotten, so that an attacker cannot fill our memory. */
const maxRemembered = 10_000;
/** Keys of limited addresses that wait for the next shared look-up. */
const maxWaiting = 512;
const maxWaitingPerAddress = 32;
const screenEveryMs = 200;

/**
 * Limits failed authentication per address before the database is asked. Valid keys still pass at a limited address: those that this
 * process has seen at once, others after a look-up that all limited addresses share, at most five times per second.
 */
export class FailedKeys {
  readonly #perMinute: number;
  readonly #findKnown: FindKnown;
  readonly #buckets = new Map<string, Bucket>();
  readonly #valid = new Map<string, true>();
  #waiting: Waiting[] = [];
  #screening = false;

  /** @param perMinute failures of one address per minute */
  constructor(perMinute: number, findKnown: FindKnown) {
    this.#perMinute = perMinute;
    this.#findKnown = findKnown;
  }

  /** @throws Throttled if the address is limited and the key is not known */
  async begin(ip: string, hash: Buffer) {
    const address = networkOf(ip);
    const id = hash.toString('hex');
    const paid = !this.#valid.has(id) && this.#take(address);
    if (!paid && !this.#valid.has(id) && !(await this.#screen(address, hash))) {
      throw this.#tooMany(address);
    }
    return {
      succeeded: () => {
        if (paid) this.#bucketOf(address).left += 1;
        remember(this.#valid, id, true);
      },
      failed: () => void this.#valid.delete(id),
    };
  }

  /** Counts a failure that needs no look-up. @throws Throttled if the address is limited */
  countMalformed(ip: string): void {
    const address = networkOf(ip);
    if (!this.#take(address)) throw this.#tooMany(address);
  }

  #take(address: string): boolean {
    const bucket = this.#bucketOf(address);
    if (bucket.left < 1) return false;
    bucket.left -= 1;
    return true;
  }

  #bucketOf(address: string): Bucket {
    const now = performance.now();
    const bucket = this.#buckets.get(address) ?? { left: this.#perMinute, at: now };
    const gained = ((now - bucket.at) / 60_000) * this.#perMinute;
    bucket.left = Math.min(this.#perMinute, bucket.left + gained);
    bucket.at = now;
    remember(this.#buckets, address, bucket);
    return bucket;
  }

  #screen(address: string, hash: Buffer): Promise<boolean> {
    const own = this.#waiting.filter((waiting) => waiting.address === address).length;
    if (own >= maxWaitingPerAddress || this.#waiting.length >= maxWaiting) {
      return Promise.resolve(false);
    }
    const answer = new Promise<boolean>((resolve, reject) => {
      this.#waiting.push({ address, hash, resolve, reject });
    });
    if (!this.#screening) this.#schedule();
    return answer;
  }

  #schedule(): void {
    this.#screening = true;
    setTimeout(() => void this.#lookUp(), screenEveryMs).unref();
  }

  async #lookUp(): Promise<void> {
    const batch = this.#waiting;
    this.#waiting = [];
    try {
      const knownHashes = await this.#findKnown(batch.map(({ hash }) => hash));
      for (const { hash, resolve } of batch) resolve(knownHashes.has(hash.toString('hex')));
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
    this.#screening = false;
    if (this.#waiting.length > 0) this.#schedule();
  }

  #tooMany(address: string): Throttled {
    const missing = Math.max(0, 1 - this.#bucketOf(address).left);
    const seconds = Math.max(1, Math.ceil((missing * 60) / this.#perMinute));
    const detail = `Too many requests of this address had an API key that is not valid. Check the key, and try again in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}.`;
    return new Throttled(detail, seconds * 1_000);
  }
}

function remember<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > maxRemembered && oldest !== undefined) map.delete(oldest);
}

interface KeyCheck {
  readonly db: Sql;
  readonly failures: FailedKeys;
}

/** Routes with a scope need a key. The contract has the order: the key, its scope, then the owner in the path. */
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
  const project = orNotFound(teamId === null ? null : await findProject(db, teamId));
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

const namedProjects = 10;

/** The key's only project. @throws Refusal (403) that names the projects if there is not exactly one */
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
