import type { Sql } from './database.ts';

/** A request that carries an Idempotency-Key. */
export interface IdempotentRequest {
  /** The API key: idempotency keys of different ones never meet. */
  readonly keyId: string;
  readonly idempotencyKey: string;
  /** SHA-256 of method, path and body. */
  readonly fingerprint: Buffer;
}

export interface StoredResponse {
  readonly status: number;
  readonly response: string;
}

/** `claimed`: go ahead. A stored response is to be given again. */
export type IdempotencyClaim = 'claimed' | 'in_flight' | 'other_request' | StoredResponse;

/** Claims the key for 24 hours; a claim whose process died is free after ten minutes. */
export async function claimIdempotencyKey(
  sql: Sql,
  { keyId, idempotencyKey, fingerprint }: IdempotentRequest,
): Promise<IdempotencyClaim> {
  const claimed = await sql.query(
    `insert into idempotency_keys as i (key_id, idempotency_key, fingerprint) values ($1, $2, $3)
     on conflict (key_id, idempotency_key) do update
        set fingerprint = excluded.fingerprint, status = null, response = null, created_at = now()
      where i.created_at < now() - interval '24 hours'
         or (i.status is null and i.created_at < now() - interval '10 minutes')
     returning key_id`,
    [keyId, idempotencyKey, fingerprint],
  );
  if (claimed.length > 0) return 'claimed';
  const [row] = await sql.query<{ same: boolean } & (StoredResponse | { status: null })>(
    `select fingerprint = $3 as same, status, response from idempotency_keys
      where key_id = $1 and idempotency_key = $2`,
    [keyId, idempotencyKey, fingerprint],
  );
  if (!row || row.status === null) return row?.same === false ? 'other_request' : 'in_flight';
  return row.same ? row : 'other_request';
}

/** Keeps the response for whoever asks again. */
export async function keepResponse(
  sql: Sql,
  { keyId, idempotencyKey }: IdempotentRequest,
  { status, response }: StoredResponse,
): Promise<void> {
  await sql.query(
    'update idempotency_keys set status = $3, response = $4 where key_id = $1 and idempotency_key = $2',
    [keyId, idempotencyKey, status, response],
  );
}

/** A request that was refused changed nothing: its key may be used again. */
export async function releaseIdempotencyKey(
  sql: Sql,
  { keyId, idempotencyKey }: IdempotentRequest,
): Promise<void> {
  await sql.query(
    'delete from idempotency_keys where key_id = $1 and idempotency_key = $2 and status is null',
    [keyId, idempotencyKey],
  );
}

/** Drops what nobody may ask for again. @returns how many */
export async function deleteSpentIdempotencyKeys(sql: Sql): Promise<number> {
  const rows = await sql.query(
    `delete from idempotency_keys where created_at < now() - interval '24 hours' returning key_id`,
  );
  return rows.length;
}
