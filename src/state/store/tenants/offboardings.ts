import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { command, queryAny, queryFirst, queryRows, queryValues } from '../database/statement.ts';
import type { Reach } from './tenants.ts';
import { isSameInterval } from '../database/times.ts';

/** cancelling: runs end. deleting: rows go. settling: what began before may still write. */
export type OffboardingStatus = 'cancelling' | 'deleting' | 'settling' | 'completed';

/** The deletion of an organization or a project. It stays as the record of it. */
export interface Offboarding extends Reach {
  readonly id: string;
  /** The name that it had. */
  readonly name: string;
  /** The operator's key; null: the command line. */
  readonly requestedBy: string | null;
  readonly requestedAt: Timestamp;
  readonly status: OffboardingStatus;
  /** Why the last try made no progress; null if it did. */
  readonly lastError: string | null;
  readonly completedAt: Timestamp | null;
}

const columns = `o.id, o.organization_id as "organizationId", o.team_id as "teamId", o.name, o.requested_by as "requestedBy",
  o.requested_at as "requestedAt", o.status, o.last_error as "lastError", o.completed_at as "completedAt"`;

export const findOffboarding = queryFirst<Offboarding, [id: string]>(
  `select ${columns} from offboardings o where o.id = $1`,
);

export const listOffboardings = queryRows<Offboarding, [limit: number]>(
  `select ${columns} from offboardings o order by o.requested_at desc, o.id limit $1`,
);

/** From now on no key, request or run of it works. @returns also one in progress; null if there is no such tenant */
export async function openOffboarding(
  tx: Sql,
  { organizationId, teamId }: Reach,
  requestedBy: string | null,
): Promise<Offboarding | null> {
  const values = [organizationId, teamId];
  const [opened] = await tx.query<Offboarding>(
    `with closed_organization as (
       update organizations set closed_at = coalesce(closed_at, now()) where id = $1 and $2::int is null returning name
     ), closed_projects as (
       update projects set closed_at = coalesce(closed_at, now())
        where organization_id = $1 and ($2::int is null or id = $2) returning name
     ), opened as (
       insert into offboardings (organization_id, team_id, name, requested_by)
       select $1::uuid, $2::int, name, $3::uuid from closed_organization
       union all select $1::uuid, $2::int, name, $3::uuid from closed_projects where $2::int is not null
       on conflict do nothing returning *
     )
     select ${columns} from opened o`,
    [...values, requestedBy],
  );
  await tx.query(
    `update api_keys set revoked_at = least(revoked_at, now())
      where organization_id = $1 and ($2::int is null or project_ids <@ array[$2::int])`,
    values,
  );
  await tx.query(
    `update api_keys set project_ids = array_remove(project_ids, $2)
      where organization_id = $1 and $2::int = any (project_ids) and not project_ids <@ array[$2::int]`,
    values,
  );
  await tx.query(
    `update notification_targets set enabled = false
      where organization_id = $1 and ($2::int is null or team_id = $2) and enabled`,
    values,
  );
  if (opened) return opened;
  const [underWay] = await tx.query<Offboarding>(
    `select ${columns} from offboardings o
      where o.organization_id = $1 and o.team_id is not distinct from $2 and o.completed_at is null`,
    values,
  );
  return underWay ?? null;
}

export const listOpenOffboardings = queryValues<string>(
  `select id from offboardings where completed_at is null order by requested_at, id`,
);

/** One process at a time works on it. @returns null if another does, or if it is completed */
export async function lockOffboarding(
  tx: Sql,
  id: string,
): Promise<(Offboarding & { readonly ageMs: number }) | null> {
  // Exports with long histories take longer to delete than other statements may.
  await tx.query(`set local statement_timeout = '15min'`);
  const [row] = await tx.query<Offboarding & { ageMs: number }>(
    `select ${columns}, greatest(0, extract(epoch from now() - o.requested_at) * 1000)::float8 as "ageMs"
       from offboardings o where o.id = $1 and o.completed_at is null for update skip locked`,
    [id],
  );
  return row ?? null;
}

export interface OffboardingStep {
  readonly status: OffboardingStatus;
  /** It is the reason why there is no next step yet. */
  readonly waitsFor?: string;
}

export const recordStep = command(
  `update offboardings set status = $2, last_error = $3,
            deleted_by = case when $2 = 'settling' then coalesce(deleted_by, pg_current_xact_id()) end,
            deleted_at = case when $2 = 'settling' then coalesce(deleted_at, now()) else deleted_at end,
            completed_at = case when $2 = 'completed' then now() end
      where id = $1`,
  (id: string, { status, waitsFor }: OffboardingStep) => [id, status, waitsFor ?? null],
);

/** Records why a step failed. */
export const recordFailure = command<[id: string, error: string]>(
  `update offboardings set last_error = $2 where id = $1`,
);

/** Says if all rows are deleted, and every transaction has ended that began before, or `patienceMs` are over. */
export const hasSettled = queryAny<[id: string, patienceMs: number]>(`
     select from offboardings where id = $1 and status = 'settling' and (pg_snapshot_xmin(pg_current_snapshot()) > deleted_by
        or deleted_at < now() - $2 * interval '1 ms')`);

/** The files at a place by our records. */
interface PlaceCounts {
  readonly files: number;
  readonly manifests: number;
  readonly rows: number;
  readonly bytes: number;
  readonly leftoverFiles: number;
  readonly openUploads: number;
}

export interface ExportPlace extends PlaceCounts {
  readonly exportId: string;
  readonly teamId: number;
  readonly type: string;
  /** Without secrets. */
  readonly config: DestinationConfig;
}

export const measurePlaces = queryRows<ExportPlace, [exportIds: readonly string[]]>(`
     with places as (
       select id, destination_version as version, destination_config as config from batch_exports where id = any ($1::uuid[])
       union all select export_id, version, destination_config from former_destinations where export_id = any ($1::uuid[])
     ), current as (
       select export_id as id, destination_version as version, sum(jsonb_array_length(files) + jsonb_array_length(rejected_files)) as files,
              count(manifest_key) as manifests, sum(rows) as rows, sum(bytes) as bytes
         from receipts where export_id = any ($1::uuid[]) group by 1, 2
     ), leftovers as (
       select export_id as id, destination_version as version, count(*) as files from leftover_files l
        where export_id = any ($1::uuid[]) and l.deleted_at is null
          and not exists (select from receipts c where ${isSameInterval('c', 'l')} and c.destination_version = l.destination_version
                             and l.key in (select f ->> 'key' from jsonb_array_elements(c.files || c.rejected_files) f))
        group by 1, 2
     ), uploaded as (
       select export_id as id, destination_version as version, 1 as uploads from upload_places where export_id = any ($1::uuid[])
     )
     select e.id as "exportId", e.team_id as "teamId", e.destination_type as type, p.config,
            coalesce(c.files, 0)::bigint as files, coalesce(c.manifests, 0) as manifests, coalesce(c.rows, 0)::bigint as rows,
            coalesce(c.bytes, 0)::bigint as bytes, coalesce(l.files, 0) as "leftoverFiles", coalesce(u.uploads, 0) as "openUploads"
       from places p join batch_exports e using (id) left join current c using (id, version)
            left join leftovers l using (id, version) left join uploaded u using (id, version)`);

/** A place as the record keeps it. */
export interface KeptPlace extends Omit<ExportPlace, 'config'> {
  /** An address such as `s3://bucket/prefix`; null if the destination keeps no files. */
  readonly address: string | null;
  readonly place: string | null;
}

/** Records places, also with other offboardings of the organization that are in progress: a project beside it. */
export const keepPlaces = command(
  `update offboardings o set places = o.places || (select coalesce(jsonb_agg(p), '[]') from jsonb_array_elements($2::jsonb) p
              where o.team_id is null or o.team_id = (p ->> 'teamId')::int)
      where o.organization_id = $1 and o.completed_at is null`,
  (organizationId: string, places: readonly KeptPlace[]) => [
    organizationId,
    JSON.stringify(places),
  ],
);

/** The files that stay at one address, of all exports that wrote there. */
export interface RemainingFiles extends PlaceCounts {
  readonly destinationType: string;
  readonly address: string;
  /** The store and the bucket or folder. */
  readonly place: string;
  readonly exports: number;
}

export const listRemainingFiles = queryRows<
  RemainingFiles,
  [offboardingId: string, limit: number]
>(`
     select type as "destinationType", address, place, count(distinct "exportId") as exports,
            sum(files)::bigint as files, sum(manifests)::bigint as manifests, sum(rows)::bigint as rows, sum(bytes)::bigint as bytes,
            sum("leftoverFiles")::bigint as "leftoverFiles", sum("openUploads")::bigint as "openUploads"
       from offboardings o, jsonb_to_recordset(o.places) as p ("exportId" uuid, type text, address text, place text, files bigint,
              manifests bigint, rows bigint, bytes bigint, "leftoverFiles" bigint, "openUploads" bigint)
      where o.id = $1 and address is not null and files + manifests + "leftoverFiles" + "openUploads" > 0
      group by 1, 2, 3 order by 2, 3, 1 limit $2`);
