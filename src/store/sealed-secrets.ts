import type { Sql } from './database.ts';

/** Secrets at rest, wherever they lie. */
export interface SealedSecrets {
  readonly exportId: string;
  /** Of a destination that the export has left; null for the one it has. */
  readonly version: number | null;
  readonly box: Buffer;
}

/** Every sealed secret there is, for one transaction. */
export async function listSealedSecrets(tx: Sql): Promise<readonly SealedSecrets[]> {
  return tx.query<SealedSecrets>(
    `select id as "exportId", null::integer as version, destination_secrets as box
       from batch_exports where destination_secrets is not null
      union all
     select export_id, version, destination_secrets
       from former_destinations where destination_secrets is not null`,
  );
}

/** Puts another box of the same secrets in its place. @returns false where they changed meanwhile */
export async function replaceSealedSecrets(
  tx: Sql,
  { exportId, version, box }: SealedSecrets,
  resealed: Buffer,
): Promise<boolean> {
  const rows = await tx.query(
    version === null
      ? `update batch_exports set destination_secrets = $4
          where id = $1 and $2::integer is null and destination_secrets = $3 returning id`
      : `update former_destinations set destination_secrets = $4
          where export_id = $1 and version = $2 and destination_secrets = $3 returning export_id`,
    [exportId, version, box, resealed],
  );
  return rows.length === 1;
}
