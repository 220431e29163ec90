import { notFound } from '../../../foundation/domain/problem.ts';
import { recordActivity } from '../../../state/store/activity.ts';
import { type ApiKey, findApiKey, revokeApiKey } from '../../../state/store/api-keys.ts';
import type { Database, Sql } from '../../../state/store/database.ts';
import { type IssuedKey, storeNewKey } from './issue-key.ts';

/** Revokes a key immediately; a revoked key does not change. */
export async function revokeKey(db: Database, id: string): Promise<ApiKey> {
  return db.transaction(async (tx) => {
    const revoked = await revokeApiKey(tx, id, 0);
    if (!revoked) throw notFound();
    await recordEnd(tx, revoked, 'revoked');
    return revoked;
  });
}

/**
 * Issues a key with the rights of another key, which stays valid for `overlapSeconds`. A revoked key
 * cannot be rotated.
 */
export async function rotateKey(
  db: Database,
  id: string,
  overlapSeconds: number,
): Promise<IssuedKey> {
  return db.transaction(async (tx) => {
    const old = await findApiKey(tx, id);
    if (!old || old.revokedAt !== null) throw notFound();
    const ended = await revokeApiKey(tx, id, overlapSeconds);
    if (!ended) throw notFound();
    await recordEnd(tx, ended, 'rotated');
    return storeNewKey(tx, old, 'created');
  });
}

async function recordEnd(tx: Sql, key: ApiKey, action: string): Promise<void> {
  await recordActivity(tx, {
    organizationId: key.organizationId,
    teamId: null,
    subjectType: 'api_key',
    subjectId: key.id,
    action,
    keyId: null,
    changes: [{ field: 'revoked_at', before: null, after: key.revokedAt }],
  });
}
