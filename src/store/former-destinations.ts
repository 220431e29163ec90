import type { DestinationConfig } from '../domain/file-settings.ts';
import type { Sql } from './database.ts';
import { live, running } from './run-moves.ts';

/**
 * Saves an export's current destination, for the uploads that are open there, and counts the move. Call it
 * before the new one is written, in the same transaction.
 */
export async function retireDestination(tx: Sql, exportId: string): Promise<void> {
  await tx.query(
    `with moved as (
       insert into former_destinations (export_id, version, destination_config, destination_secrets)
       select id, destination_version, destination_config, destination_secrets from batch_exports where id = $1
     )
     update batch_exports set destination_version = destination_version + 1,
            store_traits = null, store_traits_version = null, store_traits_at = null where id = $1`,
    [exportId],
  );
}

/** A destination that an export has left. */
export interface FormerDestination {
  readonly version: number;
  /** Without secrets. */
  readonly config: DestinationConfig;
}

export async function listFormerDestinations(
  sql: Sql,
  exportId: string,
): Promise<FormerDestination[]> {
  return sql.query<FormerDestination>(
    `select version, destination_config as config from former_destinations where export_id = $1`,
    [exportId],
  );
}

/**
 * Records that the export is back at an earlier place: its files there are current again. Call it after the
 * move, in the same transaction.
 *
 * @param versions former destinations at the same place
 */
export async function returnToPlace(
  tx: Sql,
  exportId: string,
  versions: readonly number[],
): Promise<void> {
  if (versions.length === 0) return;
  // An attempt that was claimed at one of these versions would go on to write under it: it loses its lease, and
  // the next one has the new version. Also a run without an attempt: its claim may be in progress.
  await tx.query(
    `update runs set fence = fence + 1, lease_holder = null,
            lease_expires_at = case when lease_expires_at is null then null else now() end
      where export_id = $1 and status in ${live}`,
    [exportId],
  );
  const version = `(select destination_version from batch_exports where id = $1)`;
  await tx.query(
    `update uploads u set destination_version = ${version} from runs r
      where r.id = u.run_id and r.export_id = $1 and u.destination_version = any ($2::int[])`,
    [exportId, versions],
  );
  await tx.query(
    `update leftover_files l set destination_version = ${version}
      where export_id = $1 and destination_version = any ($2::int[])
        and not exists (select from leftover_files o where o.export_id = $1 and o.key = l.key
                           and o.destination_version = any ($2::int[]) and o.destination_version > l.destination_version)`,
    [exportId, versions],
  );
  await tx.query(
    `update receipts set destination_version = ${version}
      where export_id = $1 and destination_version = any ($2::int[])`,
    [exportId, versions],
  );
}

/**
 * Deletes former destinations without uploads, unless a worker may still begin one. If files remain, or may remain, only
 * the secrets are deleted, because the export may come back.
 */
export async function deleteSpentDestinations(sql: Sql): Promise<void> {
  const spent = `f.replaced_at < now() - interval '1 day'
        and not exists (select 1 from runs r join uploads u on u.run_id = r.id
                         where r.export_id = f.export_id and u.destination_version = f.version)
        and not exists (select 1 from runs r
                         where r.export_id = f.export_id and r.status = ${running} and r.started_at <= f.replaced_at)`;
  const holdsFiles = `(exists (select 1 from receipts c
                          where c.export_id = f.export_id and c.destination_version = f.version)
         or exists (select 1 from leftover_files l
                     where l.export_id = f.export_id and l.destination_version = f.version))`;
  await sql.query(`delete from former_destinations f where ${spent} and not ${holdsFiles}`);
  await sql.query(
    `update former_destinations f set destination_secrets = null
      where destination_secrets is not null and ${spent}`,
  );
}
