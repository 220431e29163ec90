import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { queryFirst } from '../database/statement.ts';
import { byReach, type Reach, reaches, reachValue } from '../tenants/tenants.ts';

export interface StoredStatement {
  readonly number: number;
  readonly sha256: string;
  readonly body: Buffer;
}

/** The first statement after `number` with bookings of a request. One at a time: each may have many MiB. @param request a UUID */
export const findStatementOf = queryFirst<
  StoredStatement,
  [exportId: string, request: string, number: number]
>(
  `select number, sha256, body from statements
      where export_id = $1 and number > $3 and position($2::bytea in body) > 0 order by number limit 1`,
  (exportId, request, number) => [exportId, Buffer.from(`"request":"${request}"`), number],
);

/** The intervals of one month, by the newest statement of an export. */
export interface StatedMonth {
  readonly id: string;
  readonly name: string;
  readonly projectId: number;
  readonly number: number | null;
  readonly sha256: string | null;
  readonly statedTo: Timestamp | null;
  readonly states: Readonly<Partial<Record<string, number>>>;
  readonly rows: number;
  readonly bytes: number;
  readonly files: number;
  /** Rows that went by the statements made in the month. */
  readonly removed: number;
  readonly erased: number;
  readonly missedDeadlines: number | null;
  /** All exports in reach. */
  readonly count: number;
}

const inMonth = (column: string) =>
  `${column} >= e.first at time zone 'UTC' and ${column} < (e.first + interval '1 month') at time zone 'UTC'`;

const statedMonth = byReach(
  (
    reach,
  ) => `select e.id, e.name, e.team_id as "projectId", e.count, nullif(e.statement_number, 0) as number, e.statement_sha256 as sha256,
            api_time(s.period_end) as "statedTo", i.states, i.rows, i.bytes, i.files, b.removed, b.erased,
            case when e.deadline_minutes is not null or e.deadline_at is not null then (
              select count(*) from late_intervals l where l.export_id = e.id and l.missed_at is not null and ${inMonth('l.data_interval_start')})
            end as "missedDeadlines"
       from (select e.id, e.name, e.team_id, e.statement_number, e.statement_sha256, e.deadline_minutes, e.deadline_at, m.first,
                    count(*) over () as count
               from (select $2::timestamp as first) m join batch_exports e on ${reaches(reach, 'e.team_id', 1)}
              where e.deleted_at is null or e.statement_number > 0
              order by e.team_id, lower(e.name), e.id limit $3) e
       left join statements s on s.export_id = e.id and s.number = e.statement_number
       cross join lateral (
         select coalesce(jsonb_object_agg(state, intervals), '{}') as states, coalesce(sum(rows), 0)::bigint as rows,
                coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(files), 0)::bigint as files
           from (select i.state->>'state' as state, count(*) as intervals, sum((i.state->>'rows')::bigint) as rows,
                        sum((i.state->>'bytes')::bigint) as bytes, sum((i.state->>'files')::bigint) as files
                   from stated_intervals i where i.export_id = e.id and ${inMonth('i.data_interval_start')} and i.state <> 'null'
                  group by 1) of_state) i
       cross join lateral (
         select coalesce(sum((s.balance->'removed'->>'rows')::bigint), 0)::bigint as removed,
                coalesce(sum((s.balance->'erased'->>'rows')::bigint), 0)::bigint as erased
           from statements s where s.export_id = e.id and ${inMonth('s.made_at')}) b
      order by e.team_id, lower(e.name), e.id`,
);

/** By project and name. @param month its first day; the intervals that begin in it, in UTC */
export async function listStatedMonth(
  sql: Sql,
  reach: Reach,
  month: string,
  limit: number,
): Promise<StatedMonth[]> {
  return sql.query<StatedMonth>(statedMonth(reach), [reachValue(reach), month, limit]);
}
