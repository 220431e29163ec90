import type { Sql } from './database.ts';

/**
 * Registers the keys of this process. Every process that shares these tables needs every key with which
 * something may be encrypted.
 *
 * @throws Error with the missing keys, if another process registered keys that this one lacks
 */
export async function registerEncryptionKeys(sql: Sql, ids: readonly string[]): Promise<void> {
  const missing = await sql.query<{ id: string }>(
    `with registered as (
       insert into encryption_keys (id) values ($1) on conflict do nothing
     )
     select id from encryption_keys where id <> all ($2::text[])`,
    [ids[0], ids],
  );
  if (missing.length === 0) return;
  throw new Error(
    `This process lacks encryption keys that this database needs: ${missing.map((row) => row.id).join(', ')}. ` +
      'Give every process the same ENCRYPTION_KEYS; Sluice keeps keys that it generated in SLUICE_DATA_DIR/encryption-key.',
  );
}

/** From now on only this key encrypts: processes may start without the others. */
export async function forgetOtherEncryptionKeys(sql: Sql, id: string): Promise<readonly string[]> {
  const forgotten = await sql.query<{ id: string }>(
    'delete from encryption_keys where id <> $1 returning id',
    [id],
  );
  return forgotten.map((row) => row.id);
}
