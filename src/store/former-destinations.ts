import type { Sql } from './database.ts';

/**
 * Keeps an export's destination as it is now, for the uploads that are open there, and counts the
 * move. To be called before the new one is written, in the same transaction.
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

/** Former destinations that have no upload any more, nor a worker that may still begin one. */
export async function deleteSpentDestinations(sql: Sql): Promise<void> {
  await sql.query(
    `delete from former_destinations f
      where replaced_at < now() - interval '1 day'
        and not exists (select 1 from runs r join uploads u on u.run_id = r.id
                         where r.export_id = f.export_id and u.destination_version = f.version)
        and not exists (select 1 from runs r
                         where r.export_id = f.export_id and r.status = 'Running' and r.started_at <= f.replaced_at)`,
  );
}
