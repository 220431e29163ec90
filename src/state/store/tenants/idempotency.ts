import type { Sql } from '../database/database.ts';

export interface IdempotentRequest {
  /** The API key: different API keys may use the same idempotency key. */
  readonly keyId: string;
  readonly idempotencyKey: string;
  /** SHA-256 of method, path and body. */
  readonly fingerprint: Buffer;
}

export interface KeptResponse {
  readonly status: number;
  readonly response: string;
}

/** Until the transaction ends. @returns false if another transaction has it */
export async function lockIdempotencyKey(
  tx: Sql,
  { keyId, idempotencyKey }: IdempotentRequest,
): Promise<boolean> {
  const [row] = await tx.query<{ locked: boolean }>(
    'select pg_try_advisory_xact_lock(hashtextextended($1, 0)) as locked',
    [`${keyId} ${idempotencyKey}`],
  );
  return row?.locked === true;
}

/** The response kept under the key in the last 24 hours, and whether it was for the same request. */
export async function findKeptResponse(
  tx: Sql,
  { keyId, idempotencyKey, fingerprint }: IdempotentRequest,
): Promise<(KeptResponse & { readonly same: boolean }) | null> {
  const [row] = await tx.query<KeptResponse & { same: boolean }>(
    `select fingerprint = $3 as same, status, response from idempotency_keys
      where key_id = $1 and idempotency_key = $2 and status is not null
        and created_at > now() - interval '24 hours'`,
    [keyId, idempotencyKey, fingerprint],
  );
  return row ?? null;
}

/** Keeps the response for a repeated request; committed together with its work. */
export async function keepResponse(
  tx: Sql,
  { keyId, idempotencyKey, fingerprint }: IdempotentRequest,
  { status, response }: KeptResponse,
): Promise<void> {
  await tx.query(
    `insert into idempotency_keys (key_id, idempotency_key, fingerprint, status, response)
     values ($1, $2, $3, $4, $5)
     on conflict (key_id, idempotency_key) do update
        set fingerprint = excluded.fingerprint, status = excluded.status, response = excluded.response,
            created_at = now()`,
    [keyId, idempotencyKey, fingerprint, status, response],
  );
}

/** Deletes responses that are too old to repeat. @returns how many */
export async function deleteSpentIdempotencyKeys(sql: Sql): Promise<number> {
  const rows = await sql.query(
    `delete from idempotency_keys where created_at < now() - interval '24 hours' returning key_id`,
  );
  return rows.length;
}
