import type { Sql } from '../database/database.ts';
import { queryValues } from '../database/statement.ts';

/** A column with encrypted values, marked by its comment in the schema. */
interface SealedColumn {
  readonly table: string;
  readonly column: string;
  /** SQL of the identity that a row's value is encrypted for. */
  readonly identity: string;
}

export interface SealedSecrets {
  readonly at: SealedColumn;
  readonly row: string;
  readonly identity: string;
  readonly box: Buffer;
}

/** For one transaction. The columns have a comment `sealed: <identity>`, in which `{column}` is a column of the row. */
export async function listSealedSecrets(tx: Sql): Promise<readonly SealedSecrets[]> {
  const sealed: SealedSecrets[] = [];
  for (const at of await listSealedColumns(tx)) {
    const rows = await tx.query<Omit<SealedSecrets, 'at'>>(
      `select ctid::text as row, ${at.identity} as identity, ${at.column} as box
         from ${at.table} where ${at.column} is not null`,
    );
    sealed.push(...rows.map((row) => ({ at, ...row })));
  }
  return sealed;
}

/** Replaces a box by another box of the same secrets. @returns false if the row changed meanwhile */
export async function replaceSealedSecrets(
  tx: Sql,
  { at, row, box }: SealedSecrets,
  resealed: Buffer,
): Promise<boolean> {
  const rows = await tx.query(
    `update ${at.table} set ${at.column} = $3 where ctid = $1::tid and ${at.column} = $2 returning 1`,
    [row, box, resealed],
  );
  return rows.length === 1;
}

async function listSealedColumns(tx: Sql): Promise<readonly SealedColumn[]> {
  const commented = await tx.query<{ table: string; column: string; template: string }>(
    `select a.attrelid::regclass::text as table, quote_ident(a.attname) as column,
            substr(d.description, length('sealed: ') + 1) as template
       from pg_description d
       join pg_attribute a on a.attrelid = d.objoid and a.attnum = d.objsubid
       join pg_class c on c.oid = a.attrelid
      where d.classoid = 'pg_class'::regclass and d.description like 'sealed: %'
        and c.relnamespace = current_schema()::regnamespace
      order by 1, 2`,
  );
  return commented.map(({ table, column, template }) => ({
    table,
    column,
    identity: identityOf(template),
  }));
}

/** `a:{id}` becomes `concat('a:', "id")`. */
function identityOf(template: string): string {
  const parts = template.split(/(\{\w+\})/).filter((part) => part !== '');
  const terms = parts.map((part) =>
    part.startsWith('{') ? `"${part.slice(1, -1)}"` : `'${part.replaceAll("'", "''")}'`,
  );
  return `concat(${terms.join(', ')})`;
}

/** Every process needs every key that may have encrypted something. @throws Error with the keys that this one lacks */
export async function registerEncryptionKeys(sql: Sql, ids: readonly string[]): Promise<void> {
  const missing = await sql.query<{ id: string }>(
    `with registered as (
       update installation set encryption_keys = encryption_keys || $1::text where $1 <> all (encryption_keys)
     )
     select id from installation, unnest(encryption_keys) id where id <> all ($2::text[])`,
    [ids[0], ids],
  );
  if (missing.length === 0) return;
  throw new Error(
    `This process lacks encryption keys that this database needs: ${missing.map((row) => row.id).join(', ')}. ` +
      'Give every process the same ENCRYPTION_KEYS; Sluice keeps keys that it generated in SLUICE_DATA_DIR/encryption-key.',
  );
}

/** From now on only this key encrypts: processes may start without the others. */
export const forgetOtherEncryptionKeys = queryValues<string, [id: string]>(`
     with known as materialized (select encryption_keys from installation for update
     ), kept as (update installation set encryption_keys = array[$1::text])
     select id from known, unnest(encryption_keys) id where id <> $1`);
