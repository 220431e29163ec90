import type { Sql } from '../database/database.ts';

/** What an organization may store, after bytes were taken from its day. */
export interface StoredBytesReservation {
  /** Bytes that the caller may let through; 0 if the day has less left than it needs. */
  readonly granted: number;
  readonly left: number;
  readonly endsInMs: number;
}

/** Taken at least, so that a process writes rarely. */
const blockBytes = 1024 ** 2;

/** Takes bytes from what an organization may store in its day, which begins with its first request. */
export async function reserveStoredBytes(
  sql: Sql,
  organizationId: string,
  needed: number,
  perDay: number,
): Promise<StoredBytesReservation> {
  await sql.query(
    `insert into stored_bytes as s (organization_id) values ($1) on conflict (organization_id) do update
        set day_started_at = now(), used = 0 where s.day_started_at <= now() - interval '1 day'`,
    [organizationId],
  );
  const [taken] = await sql.query<StoredBytesReservation>(
    `update stored_bytes s set used = s.used + t.granted
       from (select case when $3::bigint - used < $2::bigint then 0 else least($3::bigint - used, greatest($2::bigint, ${blockBytes})) end as granted
               from stored_bytes where organization_id = $1 for update) t
      where s.organization_id = $1
     returning t.granted::float8 as granted, ($3::bigint - s.used)::float8 as left,
               (extract(epoch from s.day_started_at + interval '1 day' - now()) * 1000)::float8 as "endsInMs"`,
    [organizationId, needed, perDay],
  );
  if (!taken) throw new Error('the record of stored bytes was deleted');
  return taken;
}

/** Counts what a worker stores for a project. @returns false, and counts nothing, if its organization may not store it today */
export async function countStoredBytes(
  sql: Sql,
  teamId: number,
  bytes: number,
  perDay: number,
): Promise<boolean> {
  const rows = await sql.query(
    `insert into stored_bytes as s (organization_id, used) select organization_id, $2::bigint from projects where id = $1
     on conflict (organization_id) do update
        set day_started_at = case when s.day_started_at <= now() - interval '1 day' then now() else s.day_started_at end,
            used = case when s.day_started_at <= now() - interval '1 day' then 0 else s.used end + excluded.used
      where s.day_started_at <= now() - interval '1 day' or s.used + excluded.used <= $3::bigint
     returning organization_id`,
    [teamId, bytes, perDay],
  );
  return rows.length > 0;
}
