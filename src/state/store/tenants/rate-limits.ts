import type { Sql } from '../database/database.ts';

export interface RateLimit {
  readonly perMinute: number;
  readonly perHour: number;
}

/** The state of a key's windows after requests were taken from them. */
export interface Reservation {
  /** Requests that the caller may let through; 0 if a window is used up. */
  readonly granted: number;
  readonly minuteLeft: number;
  readonly hourLeft: number;
  readonly minuteEndsInMs: number;
  readonly hourEndsInMs: number;
}

/**
 * Takes a sixteenth of what is left of a key's windows, at least what is needed now, or nothing if there is not as much.
 * So a process writes rarely while much is left, and the limit is exact however many processes share it.
 */
export async function reserveRequests(
  sql: Sql,
  keyId: string,
  limit: RateLimit,
  needed = 1,
): Promise<Reservation> {
  const reserved = await reserve(sql, keyId, limit, needed);
  if (reserved) return reserved;
  await sql.query('insert into rate_limits (key_id) values ($1) on conflict do nothing', [keyId]);
  const second = await reserve(sql, keyId, limit, needed);
  if (!second) throw new Error('the rate limit of a key was deleted');
  return second;
}

async function reserve(
  sql: Sql,
  keyId: string,
  limit: RateLimit,
  needed: number,
): Promise<Reservation | null> {
  const [row] = await sql.query<Reservation>(
    `with current as (
       select case when minute_fresh then minute_started_at else now() end as minute_started_at,
              case when hour_fresh then hour_started_at else now() end as hour_started_at,
              $2::bigint - case when minute_fresh then minute_used else 0 end as minute_left,
              $3::bigint - case when hour_fresh then hour_used else 0 end as hour_left
         from (select *, minute_started_at > now() - interval '1 minute' as minute_fresh,
                      hour_started_at > now() - interval '1 hour' as hour_fresh
                 from rate_limits where key_id = $1 for update) as stored
     ), taken as (
       select *, case when least(minute_left, hour_left) < $4::bigint then 0
                      else greatest($4::bigint, ceil(least(minute_left, hour_left) / 16.0))::bigint end as granted
         from current
     )
     update rate_limits r
        set minute_started_at = t.minute_started_at, minute_used = $2::bigint - t.minute_left + t.granted,
            hour_started_at = t.hour_started_at, hour_used = $3::bigint - t.hour_left + t.granted
       from taken t where r.key_id = $1
     returning t.granted, t.minute_left - t.granted as "minuteLeft", t.hour_left - t.granted as "hourLeft",
       ceil(extract(epoch from t.minute_started_at + interval '1 minute' - now()) * 1000)::bigint as "minuteEndsInMs",
       ceil(extract(epoch from t.hour_started_at + interval '1 hour' - now()) * 1000)::bigint as "hourEndsInMs"`,
    [keyId, limit.perMinute, limit.perHour, needed],
  );
  return row ?? null;
}
