import type { StoredDestination } from '../domain/batch-export.ts';
import type { Sql } from './database.ts';
import type { Lease } from './leases.ts';

/** An upload that exists at a destination and is neither completed nor aborted. */
export interface OpenUpload {
  readonly key: string;
  readonly uploadId: string;
  readonly parts: readonly { number: number; bytes: number; tag: string }[];
}

/** Durable before the first byte is sent. @returns false where the lease is lost */
export async function recordUpload(
  sql: Sql,
  lease: Lease,
  upload: { readonly key: string; readonly uploadId: string },
): Promise<boolean> {
  const rows = await sql.query(
    `insert into uploads (run_id, key, upload_id, fence)
     select id, $3, $4, fence from runs where id = $1 and fence = $2 and status = 'Running'
     on conflict (run_id, key, upload_id) do update set fence = excluded.fence returning key`,
    [lease.runId, lease.fence, upload.key, upload.uploadId],
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
     update uploads set parts = $5
      where run_id = (select id from held) and fence = $2 and key = $3 and upload_id = $4`,
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

export async function listUploads(sql: Sql, runId: string): Promise<OpenUpload[]> {
  return sql.query<OpenUpload>(
    `select key, upload_id as "uploadId", parts from uploads where run_id = $1 order by started_at, key`,
    [runId],
  );
}

/** Finished runs whose worker left uploads behind: a killed worker, a run cancelled under one. */
export async function findOrphanedUploadRuns(sql: Sql, limit: number): Promise<string[]> {
  const rows = await sql.query<{ runId: string }>(
    `select u.run_id as "runId" from uploads u join runs r on r.id = u.run_id
      where r.finished_at < now() - interval '60 s'
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
