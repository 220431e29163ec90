import type { Sql } from '../database/database.ts';

/** Adds time that a worker spent, by project, to the current hour. A project that is gone is left out. */
export async function addWorkerSeconds(
  sql: Sql,
  spent: ReadonlyMap<number, number>,
): Promise<void> {
  if (spent.size === 0) return;
  await sql.query(
    `insert into hourly_use as w (team_id, hour, seconds)
     select p.id, date_trunc('hour', now()), s.seconds
       from unnest($1::int[], $2::float8[]) as s (team_id, seconds) join projects p on p.id = s.team_id
      -- One order for all, so that two workers never wait for each other.
      order by p.id
     on conflict (team_id, config_id, hour) do update set seconds = w.seconds + excluded.seconds`,
    [[...spent.keys()], [...spent.values()]],
  );
}

/** An organization and the time that workers spent on its runs. */
export interface TenantUse {
  readonly organizationId: string;
  readonly organizationName: string;
  readonly workerSeconds: number;
}

/**
 * The organizations on which workers spent the most time, most first.
 *
 * @param hours whole hours back, besides the current one
 */
export async function listBusiestTenants(
  sql: Sql,
  hours: number,
  limit: number,
): Promise<TenantUse[]> {
  return sql.query<TenantUse>(
    `select o.id as "organizationId", o.name as "organizationName", sum(w.seconds)::float8 as "workerSeconds"
       from hourly_use w join projects p on p.id = w.team_id join organizations o on o.id = p.organization_id
      where w.config_id is null and w.hour >= date_trunc('hour', now()) - $1 * interval '1 hour'
      group by o.id order by sum(w.seconds) desc, o.id limit $2`,
    [hours, limit],
  );
}
