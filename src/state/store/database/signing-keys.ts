import type { PublicKeyEntry } from '../../../foundation/domain/signature.ts';
import type { Sql } from './database.ts';
import { command, queryFirst } from './statement.ts';

export interface StoredSigningKey {
  readonly keyId: string;
  /** Null: a later key signs, or it was learned from a bucket. */
  readonly sealed: Buffer | null;
}

const entry = 'key_id, public_key, created_at, signed_by, signature';

export async function listSigningKeys(sql: Sql): Promise<PublicKeyEntry[]> {
  const rows = await sql.query<Omit<PublicKeyEntry, 'algorithm'>>(
    `select ${entry} from signing_keys order by number`,
  );
  return rows.map((row) => ({ ...row, algorithm: 'Ed25519' }));
}

export const findSigningKey = queryFirst<StoredSigningKey>(
  `select key_id as "keyId", private_key as sealed from signing_keys order by number desc limit 1`,
);

/** Other transactions that make a key wait until this one ends. */
export const lockSigningKeys = command('lock table signing_keys in share row exclusive mode');

/** Adds a key that signs from now on. No other private part is kept. */
export async function addSigningKey(
  tx: Sql,
  { key_id, public_key, created_at, signed_by, signature }: PublicKeyEntry,
  sealed: Buffer | null,
): Promise<void> {
  await tx.query('update signing_keys set private_key = null where private_key is not null');
  await tx.query(
    `insert into signing_keys (number, ${entry}, private_key)
     select coalesce(max(number), 0) + 1, $1, $2, $3, $4, $5, $6 from signing_keys`,
    [key_id, public_key, created_at, signed_by, signature, sealed],
  );
}
