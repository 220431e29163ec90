import type { StoredDestination } from '../../../foundation/domain/batch-export.ts';
import type { Sql } from '../database/database.ts';
import type { Lease } from '../runs/lease.ts';
import { prepared, unflushed } from '../database/prepared.ts';
import { isRunning } from '../runs/run-moves.ts';

/** The holder of a lease that begins an upload, and its destination. */
type Uploader = Lease & { readonly destinationVersion: number };

/** An upload that exists at a destination and is neither completed nor aborted. */
export interface OpenUpload {
  readonly key: string;
  readonly uploadId: string;
  readonly parts: readonly { number: number; bytes: number; tag: string }[];
}

/** An upload, and the lineage of attempts that it belongs to. */
export interface LineageUpload extends OpenUpload {
  readonly generation: number;
}

/**
 * Replaces an upload id while a store is asked for one: a note. It is removed when the answer comes. A note
 * that stays means that there may be uploads of its key with unknown ids.
 */
export const unheard = '';

/**
 * Must be durable before the store is asked for an upload.
 *
 * @returns `kept` if the key has a note already: an earlier upload of the key may be unknown; null if the
 *   lease is lost
 */
export async function noteUpload(
  sql: Sql,
  lease: Uploader,
  key: string,
): Promise<'new' | 'kept' | null> {
  const [row] = await sql.query<{ isNew: boolean }>(
    prepared(`with held as (
       select id, fence, file_generation from runs where id = $1 and fence = $2 and ${isRunning('runs')}
     ), noted as (
       insert into uploads (run_id, key, upload_id, fence, destination_version, file_generation)
       select id, $3, $4, fence, $5, file_generation from held
       -- An earlier note stays: the outcome of its upload is unknown.
       on conflict do nothing returning run_id
     )
     select exists (select from noted) as "isNew" from held`),
    [lease.runId, lease.fence, key, unheard, lease.destinationVersion],
  );
  if (!row) return null;
  return row.isNew ? 'new' : 'kept';
}

/**
 * Must be durable before the first byte is sent.
 *
 * @param alone whether the key's note can be removed, because it is only for this upload
 * @returns false if the lease is lost
 */
export async function recordUpload(
  sql: Sql,
  lease: Uploader,
  upload: { readonly key: string; readonly uploadId: string },
  alone: boolean,
): Promise<boolean> {
  const rows = await sql.query(
    prepared(`with recorded as (
       insert into uploads (run_id, key, upload_id, fence, destination_version, file_generation)
       select id, $3, $4, fence, $7, file_generation from runs where id = $1 and fence = $2 and ${isRunning('runs')}
       on conflict (run_id, key, upload_id) do update set fence = excluded.fence returning run_id
     ), heard as (
       delete from uploads where $6 and run_id = (select run_id from recorded) and key = $3 and upload_id = $5 and fence = $2
     )
     select from recorded`),
    [
      lease.runId,
      lease.fence,
      upload.key,
      upload.uploadId,
      unheard,
      alone,
      lease.destinationVersion,
    ],
  );
  return rows.length === 1;
}

/**
 * Records parts that no attempt had sent before. If the run has sent more than ever before, it is not what crashes the
 * worker, so its crash count starts again. An attempt that begins anew and dies at the same place has not. The disk is
 * not waited for: an attempt that does not find the record sends the parts again.
 *
 * @param sentBytes of all files of the run's lineage
 */
export async function recordUploadParts(
  sql: Sql,
  lease: Lease,
  upload: OpenUpload,
  sentBytes: number,
): Promise<void> {
  await sql.query(
    prepared(`with held as (
       update runs set crashes = case when $6 > furthest_bytes then 0 else crashes end,
              deaths_alone = case when $6 > furthest_bytes then 0 else deaths_alone end,
              furthest_bytes = greatest(furthest_bytes, $6)
        where id = $1 and fence = $2 and ${isRunning('runs')} and ${unflushed} returning id
     )
     update uploads set parts = $5, fence = $2
      where run_id = (select id from held) and key = $3 and upload_id = $4`),
    [
      lease.runId,
      lease.fence,
      upload.key,
      upload.uploadId,
      JSON.stringify(upload.parts),
      sentBytes,
    ],
  );
}

export async function forgetUpload(
  sql: Sql,
  runId: string,
  upload: { readonly key: string; readonly uploadId: string },
): Promise<void> {
  await sql.query(
    prepared(`delete from uploads where run_id = $1 and key = $2 and upload_id = $3`),
    [runId, upload.key, upload.uploadId],
  );
}

/**
 * SQL of a run's uploads with known ids, at one version of its export's destination, as JSON.
 *
 * @param run SQL of its id
 * @param version SQL of the version
 */
export const openUploadsOf = (run: string, version: string): string => `coalesce((
  select jsonb_agg(jsonb_build_object('key', u.key, 'uploadId', u.upload_id, 'parts', u.parts, 'generation', u.file_generation)
           order by u.started_at, u.key)
    from uploads u where u.run_id = ${run} and u.destination_version = ${version} and u.upload_id <> '${unheard}'), '[]')`;

/**
 * Whether an upload, aliased `u`, of a run aliased `r` may be aborted: not while the worker that began its
 * commit may still complete it. Once a later generation is current at the same destination, that worker's
 * manifest is refused.
 */
export const isAbortable = `(u.commit_begun_at is null or u.commit_begun_at < now() - interval '1 day'
  or exists (select from receipts c where c.export_id = r.export_id and c.data_interval_start = r.data_interval_start
                and c.data_interval_end = r.data_interval_end and c.generation > u.file_generation
                and c.destination_version = u.destination_version))`;

/** The attempt that began a commit has ended in good order: it completes no more uploads. */
export async function releaseUploads(sql: Sql, { runId, fence }: Lease): Promise<void> {
  await sql.query(
    `update uploads set commit_begun_at = null where run_id = $1 and fence = $2 and commit_begun_at is not null`,
    [runId, fence],
  );
}

/** Uploads of `listUploads` that may be aborted. */
export async function listAbortableUploads(
  sql: Sql,
  { runId, destinationVersion }: UploadPlace,
): Promise<OpenUpload[]> {
  return sql.query<OpenUpload>(
    `select u.key, u.upload_id as "uploadId", u.parts from uploads u join runs r on r.id = u.run_id
      where u.run_id = $1 and u.destination_version = $2 and u.upload_id <> $3 and ${isAbortable}`,
    [runId, destinationVersion, unheard],
  );
}

/** Keys with possibly unknown uploads of a run's attempts. */
export async function listNotedKeys(
  sql: Sql,
  { runId, destinationVersion }: UploadPlace,
): Promise<string[]> {
  const rows = await sql.query<{ key: string }>(
    `select key from uploads where run_id = $1 and destination_version = $2 and upload_id = $3`,
    [runId, destinationVersion, unheard],
  );
  return rows.map((row) => row.key);
}

/** What live runs have begun at a key. */
export interface LiveUploads {
  /** Their ids. A store gives each id once, so these may be of any export, at any place. */
  readonly ids: readonly string[];
  /** Destinations of the same team at which one of them waits for its id: each upload there may be its own. */
  readonly waiting: readonly Pick<StoredDestination, 'type' | 'config'>[];
}

/** @param teamId of the export whose uploads are looked for: another team cannot hold up their removal */
export async function findLiveUploads(sql: Sql, teamId: number, key: string): Promise<LiveUploads> {
  const rows = await sql.query<
    { id: string; teamId: number } & Pick<StoredDestination, 'type' | 'config'>
  >(
    `select u.upload_id as id, r.team_id as "teamId", e.destination_type as type,
            case when f.version is null then e.destination_config else f.destination_config end as config
       from uploads u join runs r on r.id = u.run_id join batch_exports e on e.id = r.export_id
       left join former_destinations f on f.export_id = e.id and f.version = u.destination_version
      where u.key = $1 and r.finished_at is null`,
    [key],
  );
  return {
    ids: rows.filter(({ id }) => id !== unheard).map(({ id }) => id),
    waiting: rows.filter((row) => row.id === unheard && row.teamId === teamId),
  };
}

/** Deletes a key's note if it is old enough: a request may take effect after its sender died. */
export async function forgetNote(
  sql: Sql,
  runId: string,
  key: string,
  minAgeMs: number,
): Promise<void> {
  await sql.query(
    `delete from uploads where run_id = $1 and key = $2 and upload_id = $3
        and started_at < now() - $4 * interval '1 ms'`,
    [runId, key, unheard, minAgeMs],
  );
}

/** A run, and one of the destinations that its export has had. */
export interface UploadPlace {
  readonly runId: string;
  readonly destinationVersion: number;
}

export interface UploadOwner {
  readonly teamId: number;
  readonly exportId: string;
  readonly externalId: string;
  readonly destination: StoredDestination;
}

export async function findUploadOwner(
  sql: Sql,
  { runId, destinationVersion }: UploadPlace,
): Promise<UploadOwner | null> {
  const [row] = await sql.query<Omit<UploadOwner, 'destination'> & StoredDestination>(
    `select e.team_id as "teamId", e.id as "exportId", p.external_id as "externalId", e.destination_type as type,
            case when f.version is null then e.destination_config else f.destination_config end as config,
            case when f.version is null then e.destination_secrets else f.destination_secrets end as secrets
       from runs r join batch_exports e on e.id = r.export_id join projects p on p.id = r.team_id
       left join former_destinations f on f.export_id = e.id and f.version = $2
      where r.id = $1`,
    [runId, destinationVersion],
  );
  if (!row) return null;
  const { teamId, exportId, externalId, type, config, secrets } = row;
  return { teamId, exportId, externalId, destination: { type, config, secrets } };
}
