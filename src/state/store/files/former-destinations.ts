import type { StoredDestination } from '../../../foundation/domain/batch-export.ts';
import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import type { Sql } from '../database/database.ts';
import { command, queryRows, queryValues } from '../database/statement.ts';
import { queryWork } from './stored-destination.ts';
import { isSetAside } from './guarded-work.ts';
import { live, running } from '../runs/run-moves.ts';

/** For the uploads that are open there. Call it before the new one is written, in the same transaction. */
export const retireDestination = command<[exportId: string]>(`with moved as (
       insert into former_destinations (export_id, version, destination_config, destination_secrets)
       select id, destination_version, destination_config, destination_secrets from batch_exports where id = $1
     )
     update batch_exports set destination_version = destination_version + 1,
            store_traits = null, store_traits_version = null, store_traits_at = null where id = $1`);

export interface FormerDestination {
  readonly version: number;
  /** Without secrets. */
  readonly config: DestinationConfig;
}

export const listFormerDestinations = queryRows<FormerDestination, [exportId: string]>(
  `select version, destination_config as config from former_destinations where export_id = $1`,
);

/** Its files there are current again. Call it after the move, in the same transaction. @param versions of that place */
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
    `with moved as (
       delete from upload_places where export_id = $1 and destination_version = any ($2::int[]) returning look_at
     )
     insert into upload_places as p (export_id, destination_version, look_at)
     select $1, ${version}, min(look_at) from moved having count(*) > 0
     on conflict (export_id, destination_version) do update set notes = p.notes + 1`,
    [exportId, versions],
  );
  await tx.query(
    `update receipts set destination_version = ${version}
      where export_id = $1 and destination_version = any ($2::int[])`,
    [exportId, versions],
  );
  // The newest record of a key says most. What is current there is no leftover any more.
  await tx.query(
    `delete from leftover_files l
      where export_id = $1 and destination_version = any ($2::int[])
        and (exists (select from leftover_files o where o.export_id = $1 and o.key = l.key and o.destination_version > l.destination_version
                        and (o.destination_version = any ($2::int[]) or o.destination_version = ${version}))
             or exists (select from receipts c where c.export_id = $1 and c.data_interval_start = l.data_interval_start
                           and c.data_interval_end = l.data_interval_end and c.destination_version = ${version}
                           and (c.manifest_key = l.key or l.key in (select f->>'key' from jsonb_array_elements(c.files || c.rejected_files) f))))`,
    [exportId, versions],
  );
  await tx.query(
    `update leftover_files set destination_version = ${version}
      where export_id = $1 and destination_version = any ($2::int[])`,
    [exportId, versions],
  );
  // The export has not left them any more, so no sweep compares them, and nothing of them is looked for elsewhere.
  await tx.query(
    `delete from former_destinations where export_id = $1 and version = any ($2::int[])`,
    [exportId, versions],
  );
}

/** The sweep gives up after these tries to compare two places, over about two days. */
const maxCompareTries = 20;

/** Places that exports have left, aliased `f`, and that were not yet compared with the present one. */
const uncompared = `former_destinations f join batch_exports e on e.id = f.export_id
  where e.deleted_at is null and f.compared_with is distinct from e.destination_version and f.version <> e.destination_version
    and (f.compare_after is null or f.compare_after <= now())
    and not ${isSetAside('compare_places', 'f.export_id')}`;

/** Teams with places that the sweep should compare now, in random order. */
export const findTeamsWithUncomparedPlaces = queryValues<number, [limit: number]>(
  `select e.team_id as "teamId" from ${uncompared} group by 1 order by random() limit $1`,
);

/** A place that an export has left, beside the present one: they may be one bucket by two addresses. */
export interface UncomparedPlace {
  readonly teamId: number;
  readonly exportId: string;
  readonly externalId: string;
  readonly destination: StoredDestination;
  readonly destinationVersion: number;
  readonly formerVersion: number;
  readonly formerConfig: DestinationConfig;
  /** Null if they were deleted, because nothing was left to do there. */
  readonly formerSecrets: Buffer | null;
  /** True if no sweep tries again after this one. */
  readonly isLastTry: boolean;
}

/** Takes one of a team. No other sweep takes it for a while, which becomes longer with each try. */
export const takeUncomparedPlace = queryWork<UncomparedPlace, [teamId: number]>(`with due as (
       select f.export_id, f.version from ${uncompared} and e.team_id = $1
        order by f.compare_after nulls first limit 1 for update of f skip locked
     ), taken as (
       update former_destinations f set compare_tries = f.compare_tries + 1,
              compare_after = now() + interval '30 s' + least(21600, 5 * power(2, least(f.compare_tries, 20))) * interval '1 s'
         from due where f.export_id = due.export_id and f.version = due.version returning f.*
     )
     select e.team_id as "teamId", e.id as "exportId", p.external_id as "externalId", e.destination_type as type,
            e.destination_config as config, e.destination_secrets as secrets, e.destination_version as "destinationVersion",
            f.version as "formerVersion", f.destination_config as "formerConfig", f.destination_secrets as "formerSecrets",
            f.compare_tries >= ${maxCompareTries} as "isLastTry"
       from taken f join batch_exports e on e.id = f.export_id join projects p on p.id = e.team_id`);

/** If they are one, the former one is forgotten. @returns false if the export has moved again, or is deleted */
export async function recordComparison(
  tx: Sql,
  { exportId, destinationVersion, formerVersion }: UncomparedPlace,
  isSame: boolean,
): Promise<boolean> {
  const locked = await tx.query(
    `select from batch_exports where id = $1 and destination_version = $2 and deleted_at is null for no key update`,
    [exportId, destinationVersion],
  );
  if (locked.length === 0) return false;
  const compared = await tx.query(
    `update former_destinations set compared_with = $3, compare_tries = 0, compare_after = null
      where export_id = $1 and version = $2 and compared_with is distinct from $3 returning version`,
    [exportId, formerVersion, destinationVersion],
  );
  if (isSame && compared.length > 0) await returnToPlace(tx, exportId, [formerVersion]);
  return true;
}

/** Unless a worker may begin an upload there. If files may remain, only the secrets go: the export may come back. */
export async function deleteSpentDestinations(sql: Sql): Promise<void> {
  const spent = `f.replaced_at < now() - interval '1 day'
        and not exists (select 1 from upload_places p where p.export_id = f.export_id and p.destination_version = f.version)
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

/** Prefixes and templates of names that an export had, as far as its activity goes back. @param usual if none was said */
export const listFormerNames = queryRows<
  { prefix: string; fileName: string },
  [exportId: string, usual: string]
>(`
     select distinct coalesce(c -> 'before' -> 'config' ->> 'prefix', '') as prefix,
            coalesce(c -> 'before' -> 'config' ->> 'file_name', $2) as "fileName"
       from activity a, jsonb_array_elements(a.changes) c
      where a.subject_type = 'batch_export' and a.subject_id = $1 and c ->> 'field' = 'destination'
        and jsonb_typeof(c -> 'before') = 'object' limit 20`);
