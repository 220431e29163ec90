import { command, queryCount, queryFirst, queryFlag } from '../database/statement.ts';

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
export const lockIdempotencyKey = queryFlag(
  'select pg_try_advisory_xact_lock(hashtextextended($1, 0)) as locked',
  ({ keyId, idempotencyKey }: IdempotentRequest) => [`${keyId} ${idempotencyKey}`],
);

/** The response kept under the key in the last 24 hours, and whether it was for the same request. */
export const findKeptResponse = queryFirst<
  KeptResponse & { same: boolean },
  [request: IdempotentRequest]
>(
  `select fingerprint = $3 as same, status, response from idempotency_keys
      where key_id = $1 and idempotency_key = $2 and status is not null
        and created_at > now() - interval '24 hours'`,
  ({ keyId, idempotencyKey, fingerprint }) => [keyId, idempotencyKey, fingerprint],
);

/** Keeps the response for a repeated request; committed together with its work. */
export const keepResponse = command(
  `insert into idempotency_keys (key_id, idempotency_key, fingerprint, status, response)
     values ($1, $2, $3, $4, $5)
     on conflict (key_id, idempotency_key) do update
        set fingerprint = excluded.fingerprint, status = excluded.status, response = excluded.response,
            created_at = now()`,
  (
    { keyId, idempotencyKey, fingerprint }: IdempotentRequest,
    { status, response }: KeptResponse,
  ) => [keyId, idempotencyKey, fingerprint, status, response],
);

/** Deletes responses that are too old to repeat. @returns how many */
export const deleteSpentIdempotencyKeys = queryCount(
  `delete from idempotency_keys where created_at < now() - interval '24 hours' returning key_id`,
);
