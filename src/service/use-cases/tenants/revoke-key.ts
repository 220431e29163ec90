import { notFound } from '../../../foundation/domain/problem.ts';
import { recordActivity } from '../../../state/store/exports/activity.ts';
import { type ApiKey, findApiKey, revokeApiKey } from '../../../state/store/tenants/api-keys.ts';
import type { Sql, Transactor } from '../../../state/store/database/database.ts';
import { type IssuedKey, storeNewKey } from './issue-key.ts';

/** Revokes a key immediately; a revoked key does not change. */
export async function revokeKey(
  db: Transactor,
  id: string,
  keyId: string | null = null,
): Promise<ApiKey> {
  return db.transaction(async (tx) => {
    const revoked = await revokeApiKey(tx, id, 0);
    if (!revoked) throw notFound();
    await recordEnd(tx, revoked, 'revoked', keyId);
    return revoked;
  });
}

/**
 * Issues a key with the rights of another key, which stays valid for `overlapSeconds`. A revoked key
 * cannot be rotated.
 */
export async function rotateKey(
  db: Transactor,
  id: string,
  overlapSeconds: number,
  keyId: string | null = null,
): Promise<IssuedKey> {
  return db.transaction(async (tx) => {
    const old = await findApiKey(tx, id);
    if (!old || old.revokedAt !== null) throw notFound();
    const ended = await revokeApiKey(tx, id, overlapSeconds);
    if (!ended) throw notFound();
    await recordEnd(tx, ended, 'rotated', keyId);
    return storeNewKey(tx, old, 'created', keyId);
  });
}

async function recordEnd(
  tx: Sql,
  key: ApiKey,
  action: string,
  keyId: string | null,
): Promise<void> {
  const change = { field: 'revoked_at', before: null, after: key.revokedAt };
  const by = { organizationId: key.organizationId, keyId };
  await recordActivity(tx, by, action, 'api_key', { id: key.id }, [change]);
}
