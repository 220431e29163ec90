import type { Sql } from '../database/database.ts';
import { countedPage, escapeLike, type OffsetPage, type PageRequest } from '../database/lists.ts';
import { queryPage } from '../database/statement.ts';
import {
  byReach,
  isTenant,
  matchesOrganization,
  type Reach,
  reaches,
  reachValue,
} from './tenants.ts';

/** The projects and exports of an organization, and the rows and bytes of its current files of one month. */
export interface Usage {
  /** Such as `2024-03`. */
  readonly month: string;
  readonly id: string;
  readonly name: string;
  readonly disabledAt: string | null;
  readonly projects: number;
  readonly exports: number;
  readonly rows: number;
  readonly bytes: number;
}

/** By name. Deleted exports count while their receipts are kept. @param month its first day, in UTC; null: the present one */
export const listUsage = queryPage<
  Usage,
  [month: string | null, search: string | null, page: PageRequest]
>(
  // The receipts of one export at a time, by their primary key.
  `select to_char(m.first, 'YYYY-MM') as month, o.id, o.name, o.disabled_at as "disabledAt", o.count,
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
  (month, search, { limit, offset }) => [month, escapeLike(search), limit, offset],
);

/** The rows and bytes of the current files of an export, of one month. */
export interface ExportUsage extends Pick<Usage, 'month' | 'id' | 'name' | 'rows' | 'bytes'> {
  readonly projectId: number;
  readonly deletedAt: string | null;
  readonly intervals: number;
}

const receiptsOfMonth = `receipts r where r.export_id = e.id and r.data_interval_start >= first at time zone 'UTC'
              and r.data_interval_start < (first + interval '1 month') at time zone 'UTC'`;

const exportUsage = byReach(
  (reach) => `select to_char(e.first, 'YYYY-MM') as month, e.team_id as "projectId", e.id, e.name,
            api_time(e.deleted_at) as "deletedAt", e.count, u.intervals, u.rows, u.bytes
       from (select e.id, e.name, e.team_id, e.deleted_at, first, count(*) over () as count
               from (select coalesce($2::timestamp, date_trunc('month', now() at time zone 'UTC')) as first) m
               join batch_exports e on ${reaches(reach, 'e.team_id', 1)}
              where e.deleted_at is null or exists (select from ${receiptsOfMonth})
              order by e.team_id, lower(e.name), e.id limit $3 offset $4) e
       cross join lateral (
         select count(*) as intervals, coalesce(sum(r.rows), 0)::bigint as rows, coalesce(sum(r.bytes), 0)::bigint as bytes
           from ${receiptsOfMonth}) u
      order by e.team_id, lower(e.name), e.id`,
);

/** By project and name, deleted ones with receipts too. @param month its first day, in UTC; null: the present one */
export async function listExportUsage(
  sql: Sql,
  reach: Reach,
  month: string | null,
  { limit, offset }: PageRequest,
): Promise<OffsetPage<ExportUsage>> {
  const values = [reachValue(reach), month, limit, offset];
  return countedPage<ExportUsage>(await sql.query(exportUsage(reach), values));
}
