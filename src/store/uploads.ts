import type { StoredDestination } from '../domain/batch-export.ts';
import type { Sql } from './database.ts';
import type { Lease } from './leases.ts';

/** An upload that exists at a destination and is neither completed nor aborted. */
export interface OpenUpload {
  readonly key: string;
  readonly uploadId: string;
  readonly parts: readonly { number: number; bytes: number; tag: string }[];
}

/**
 * Stands for an upload id while a store is asked for one: a note. It goes once the answer is heard;
 * one that stays says that there may be uploads of its key whose ids nobody knows.
 */
const unheard = '';

/** Durable before the store is asked for an upload. @returns false where the lease is lost */
export async function noteUpload(sql: Sql, lease: Lease, key: string): Promise<boolean> {
  const rows = await sql.query(
    `with held as (
       select id, fence from runs where id = $1 and fence = $2 and status = 'Running'
     ), noted as (
       insert into uploads (run_id, key, upload_id, fence) select id, $3, $4, fence from held
       -- The note of an earlier attempt stays its own: nobody has heard what came of it.
       on conflict do nothing
     )
     select from held`,
    [lease.runId, lease.fence, key, unheard],
  );
  return rows.length === 1;
}

/**
 * Durable before the first byte is sent.
 *
 * @param alone whether the note of this attempt can go, as no upload but this can be meant by it
 * @returns false where the lease is lost
 */
export async function recordUpload(
  sql: Sql,
  lease: Lease,
  upload: { readonly key: string; readonly uploadId: string },
  alone: boolean,
): Promise<boolean> {
  const rows = await sql.query(
    `with recorded as (
       insert into uploads (run_id, key, upload_id, fence)
       select id, $3, $4, fence from runs where id = $1 and fence = $2 and status = 'Running'
       on conflict (run_id, key, upload_id) do update set fence = excluded.fence returning run_id
     ), heard as (
       delete from uploads where $6 and run_id = (select run_id from recorded) and key = $3 and upload_id = $5 and fence = $2
     )
     select from recorded`,
    [lease.runId, lease.fence, upload.key, upload.uploadId, unheard, alone],
  );
  return rows.length === 1;
}

/**
 * Notes parts that no attempt had sent before. A run that comes further each time is none that ends
 * its process, however often its workers are killed: its count of crashes begins anew.
 */
export async function recordUploadParts(sql: Sql, lease: Lease, upload: OpenUpload): Promise<void> {
  await sql.query(
    `with held as (
       update runs set crashes = 0 where id = $1 and fence = $2 and status = 'Running' returning id
     )
     update uploads set parts = $5, fence = $2
      where run_id = (select id from held) and key = $3 and upload_id = $4`,
    [lease.runId, lease.fence, upload.key, upload.uploadId, JSON.stringify(upload.parts)],
  );
}

export async function forgetUpload(
  sql: Sql,
  runId: string,
  upload: { readonly key: string; readonly uploadId: string },
): Promise<void> {
  await sql.query(`delete from uploads where run_id = $1 and key = $2 and upload_id = $3`, [
    runId,
    upload.key,
    upload.uploadId,
  ]);
}

/** Uploads of a run whose ids are known. */
export async function listUploads(sql: Sql, runId: string): Promise<OpenUpload[]> {
  return sql.query<OpenUpload>(
    `select key, upload_id as "uploadId", parts from uploads
      where run_id = $1 and upload_id <> $2 order by started_at, key`,
    [runId, unheard],
  );
}

/** Keys at which attempts of a run may have begun uploads that nobody knows. */
export async function listNotedKeys(sql: Sql, runId: string): Promise<string[]> {
  const rows = await sql.query<{ key: string }>(
    `select key from uploads where run_id = $1 and upload_id = $2`,
    [runId, unheard],
  );
  return rows.map((row) => row.key);
}

/**
 * Upload ids at a key that live runs have, under whichever export; null where one of them is just
 * being told an id, so that any upload there may be its.
 */
export async function findLiveUploadIds(sql: Sql, key: string): Promise<readonly string[] | null> {
  const rows = await sql.query<{ id: string }>(
    `select u.upload_id as id from uploads u join runs r on r.id = u.run_id
      where u.key = $1 and r.finished_at is null`,
    [key],
  );
  const ids = rows.map((row) => row.id);
  return ids.includes(unheard) ? null : ids;
}

/** Takes the note of a key away. */
export async function forgetNote(sql: Sql, runId: string, key: string): Promise<void> {
  await forgetUpload(sql, runId, { key, uploadId: unheard });
}

/**
 * Finished runs whose worker left uploads behind: a killed worker, a run cancelled under one. A
 * worker that may still be at it has until the end of its lease to do so itself.
 */
export async function findOrphanedUploadRuns(sql: Sql, limit: number): Promise<string[]> {
  const rows = await sql.query<{ runId: string }>(
    `select u.run_id as "runId" from uploads u join runs r on r.id = u.run_id
      where r.finished_at is not null and (r.lease_expires_at is null or r.lease_expires_at < now())
      group by u.run_id order by random() limit $1`,
    [limit],
  );
  return rows.map((row) => row.runId);
}

/** Where the uploads of a run are. */
export interface UploadOwner {
  readonly exportId: string;
  readonly externalId: string;
  readonly destination: StoredDestination;
}

export async function findUploadOwner(sql: Sql, runId: string): Promise<UploadOwner | null> {
  const [row] = await sql.query<{
    exportId: string;
    externalId: string;
    type: string;
    config: Record<string, unknown>;
    secrets: Buffer | null;
  }>(
    `select e.id as "exportId", p.external_id as "externalId", e.destination_type as type,
            e.destination_config as config, e.destination_secrets as secrets
       from runs r join batch_exports e on e.id = r.export_id join projects p on p.id = r.team_id
      where r.id = $1`,
    [runId],
  );
  if (!row) return null;
  const { exportId, externalId, type, config, secrets } = row;
  return { exportId, externalId, destination: { type, config, secrets } };
}
