import type { Sql } from '../database/database.ts';
import type { OffsetPage, PageRequest } from '../database/lists.ts';
import { isTenant, matchesOrganization, searched } from './tenants.ts';

/** What an organization has, and what its current files of one month have. */
export interface Usage {
  readonly id: string;
  readonly name: string;
  readonly disabledAt: string | null;
  readonly projects: number;
  readonly exports: number;
  readonly rows: number;
  readonly bytes: number;
}

/**
 * The organizations by name. A deleted export counts as long as its receipts are kept.
 *
 * @param month its first day: intervals that begin in it, in UTC; null: the present month
 */
export async function listUsage(
  sql: Sql,
  month: string | null,
  search: string | null,
  { limit, offset }: PageRequest,
): Promise<OffsetPage<Usage>> {
  // The receipts of one export at a time, by their primary key.
  const rows = await sql.query<Usage & { count: number }>(
    `select o.id, o.name, o.disabled_at as "disabledAt", o.count,
            (select count(*) from projects p where p.organization_id = o.id and p.closed_at is null) as projects,
            (select count(*) from batch_exports e join projects p on p.id = e.team_id
              where p.organization_id = o.id and e.deleted_at is null) as exports,
            u.rows, u.bytes
       from (select id, name, disabled_at, count(*) over () as count from organizations
              where closed_at is null and ${isTenant} and ${matchesOrganization('$2')}
              order by lower(name), id limit $3 offset $4) o
       cross join (select coalesce($1::timestamp, date_trunc('month', now() at time zone 'UTC')) as first) m
       cross join lateral (
         select coalesce(sum(r.rows), 0)::bigint as rows, coalesce(sum(r.bytes), 0)::bigint as bytes
           from projects p join batch_exports e on e.team_id = p.id
           cross join lateral (
             select sum(rows) as rows, sum(bytes) as bytes from receipts
              where export_id = e.id and data_interval_start >= m.first at time zone 'UTC'
                and data_interval_start < (m.first + interval '1 month') at time zone 'UTC') r
          where p.organization_id = o.id) u
      order by lower(o.name), o.id`,
    [month, searched(search), limit, offset],
  );
  return { count: rows[0]?.count ?? 0, results: rows.map(({ count: _, ...usage }) => usage) };
}
