import type { Sql } from './database.ts';

/**
 * Registers the keys of this process. Every process that shares these tables must hold every key
 * that something may be sealed with.
 *
 * @throws Error that says which keys are missing, if another process registered keys that this
 *   one does not hold
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
    `This process lacks encryption keys that the database was used with: ${missing.map((row) => row.id).join(', ')}. ` +
      'Give every process the same ENCRYPTION_KEYS; keys that were made by themselves lie in SLUICE_DATA_DIR/encryption-key.',
  );
}

/** From now on nothing is sealed with any other key: processes may start without them. */
export async function forgetOtherEncryptionKeys(sql: Sql, id: string): Promise<readonly string[]> {
  const forgotten = await sql.query<{ id: string }>(
    'delete from encryption_keys where id <> $1 returning id',
    [id],
  );
  return forgotten.map((row) => row.id);
}
