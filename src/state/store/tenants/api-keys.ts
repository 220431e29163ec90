import type { Timestamp } from '../../../foundation/domain/time.ts';
import { command, queryFirst, queryOne, queryRows, queryValues } from '../database/statement.ts';
import { prepared } from '../database/prepared.ts';

export interface ApiKey {
  readonly id: string;
  /** Null: an operator's. */
  readonly organizationId: string | null;
  /** Null: all projects of the organization. */
  readonly projectIds: readonly number[] | null;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly createdAt: Timestamp;
  readonly expiresAt: Timestamp | null;
  readonly revokedAt: Timestamp | null;
  readonly lastUsedAt: Timestamp | null;
}

export interface NewApiKey
  extends Pick<ApiKey, 'organizationId' | 'projectIds' | 'name' | 'scopes' | 'expiresAt'> {
  readonly hash: Buffer;
}

const columns = `k.id, k.organization_id as "organizationId", k.project_ids as "projectIds", k.name, k.scopes,
  k.created_at as "createdAt", k.expires_at as "expiresAt",
  k.revoked_at as "revokedAt", k.last_used_at as "lastUsedAt"`;

export const insertApiKey = queryOne<ApiKey, [key: NewApiKey]>(
  `insert into api_keys as k (organization_id, project_ids, name, hash, scopes, expires_at)
     values ($1, $2, $3, $4, $5, $6) returning ${columns}`,
  (key) => [key.organizationId, key.projectIds, key.name, key.hash, key.scopes, key.expiresAt],
);

/** A key from a request, with everything that decides about the request. */
export interface PresentedKey extends ApiKey {
  readonly hash: Buffer;
  readonly ended: boolean;
  /** last_used_at is more than a minute old. */
  readonly useIsStale: boolean;
  /** True if an operator has disabled its organization. */
  readonly isDisabled: boolean;
  /** True if the requested project belongs to the key's organization, and is neither disabled nor being deleted. */
  readonly ownsProject: boolean;
}

export interface TenantKey extends PresentedKey {
  readonly organizationId: string;
}

/** In one round trip: the key, and whether its organization owns `projectId`. */
export const findPresentedKey = queryFirst<PresentedKey, [hash: Buffer, projectId: number | null]>(
  prepared(`select ${columns}, k.hash,
            coalesce(k.revoked_at <= now(), false) or coalesce(k.expires_at <= now(), false) as ended,
            coalesce(k.last_used_at < now() - interval '1 minute', true) as "useIsStale",
            exists (select from organizations o where o.id = k.organization_id and o.disabled_at is not null) as "isDisabled",
            exists (select from projects p where p.id = $2 and p.organization_id = k.organization_id and p.closed_at is null and p.disabled_at is null) as "ownsProject"
       from api_keys k where k.hash = $1`),
);

/** Which of the hashes belong to keys that have not ended. */
export const findKnownHashes = queryValues<Buffer, [hashes: readonly Buffer[]]>(`
     select hash from api_keys
      where hash = any($1) and not coalesce(revoked_at <= now(), false)
        and not coalesce(expires_at <= now(), false)`);

/** Writes at most once per minute, however often it is called. */
export const touchApiKey = command<[id: string]>(`update api_keys set last_used_at = now()
      where id = $1 and coalesce(last_used_at < now() - interval '1 minute', true)`);

export const findApiKey = queryFirst<ApiKey, [id: string]>(
  `select ${columns} from api_keys k where k.id = $1`,
);

/** Oldest first. @param organizationId null: the keys of operators */
export const listApiKeys = queryRows<ApiKey, [organizationId: string | null]>(
  `select ${columns} from api_keys k where k.organization_id is not distinct from $1::uuid order by k.created_at, k.id`,
);

/** A key that ends sooner keeps its end. @returns the key, or null if there is none */
export const revokeApiKey = queryFirst<ApiKey, [id: string, delaySeconds: number]>(`
     update api_keys k set revoked_at = least(k.revoked_at, now() + $2 * interval '1 second')
      where k.id = $1 returning ${columns}`);
