import { disabledCodes, type ExportHealth } from '../../../foundation/domain/batch-export.ts';
import { type ErrorCode, errorCatalogue } from '../../../foundation/domain/errors.ts';
import { type Turn, turnOf } from '../../../foundation/domain/causes.ts';
import type { DataInterval, Timestamp } from '../../../foundation/domain/time.ts';
import { isAwake, nextTryOf } from './healing.ts';
import type { Sql } from '../database/database.ts';
import { queryFirst, queryPage } from '../database/statement.ts';
import { healthOfExport } from '../exports/export-states.ts';
import {
  Conditions,
  countedPage,
  escapeLike,
  type OffsetPage,
  type PageRequest,
} from '../database/lists.ts';
import { isSameInterval, rangeOf } from '../database/times.ts';

/** One row for all exports that fail with the same error at the same place, for people. Each export is attempted by itself. */
export interface OperatorCause {
  /** It stays the same as long as the cause is there. */
  readonly id: string;
  readonly turn: Turn;
  /** A code of the catalogue, or one of `conditionCodes`. */
  readonly code: string;
  /** The bucket or the model; '' if it is not at a place. */
  readonly place: string;
  /** The customer, if it is only one. */
  readonly organizationId: string | null;
  readonly organizationName: string | null;
  readonly organizations: number;
  readonly exports: number;
  readonly pausedExports: number;
  readonly missingIntervals: number;
  readonly since: Timestamp | null;
  readonly latestError: string | null;
  /** When a run of these exports is attempted next; null: none waits for another attempt. */
  readonly nextAttemptAt: Timestamp | null;
  /** When Sluice probes what they wait for; null: nothing of them heals. */
  readonly nextProbeAt: Timestamp | null;
}

/** Of exports that do not fail: not proven, without data, late, or paused by Sluice. */
export const conditionCodes = [
  'verify.failed',
  'intervals.missing',
  'export.late',
  'export.paused',
] as const;

export interface CauseSearch {
  /** Part of the name of an organization or a project, or one of its ids or its tenant key; or the id of an export. */
  readonly search: string | null;
  readonly turn: Turn | null;
  readonly causeId: string | null;
}

const codesOf = (turn: Turn): readonly string[] =>
  (Object.keys(errorCatalogue) as ErrorCode[]).filter((code) => turnOf(code) === turn);

/** Names of a destination's place, whatever its type. */
const placeOf = ['endpoint_url', 'bucket_name', 'container', 'account', 'host', 'directory']
  .map((name) => `nullif(e.destination_config->>'${name}', '')`)
  .join(', ');

/** The same as `lost_code(e.id)`, which costs ten times as much for thousands of exports. */
const lostCode = `(select (select r.error_code from runs r
      where ${isSameInterval('r', 'm')}
        and r.status in ('Failed', 'FailedRetryable') order by r.id desc limit 1)
    from missing_intervals m where m.export_id = e.id order by m.data_interval_start desc, m.data_interval_end desc limit 1)`;

/**
 * Every export with what is wrong with it: code null if nothing is. The search comes after the join, whose plan it would spoil. An export whose
 * verification failed has a row for that too.
 * $1, $2: codes whose turn is the source's, ours. $3: codes of the pauses of disabled tenants.
 */
const judged = `problems as materialized (
  select export_id, 'verify.failed' as code, detail as error, failed_since as since from export_checks where failed_since is not null
  union all
  -- What the row of the export says itself.
  select e.id, null, null, null from batch_exports e
   where e.failing_since is not null or not exists (select from export_checks v where v.export_id = e.id and v.failed_since is not null)
), judged as materialized (
  select e.id, e.name, e.team_id, e.paused, e.model, e.created_at, p.name as project, p.tenant_key, p.organization_id, o.name as organization,
         coalesce(h.n, 0)::int as missing,
         case when h.next_try_at is not null and ${isAwake} and p.disabled_at is null and o.disabled_at is null then ${nextTryOf} end as next_try_at,
         coalesce(k.error, e.failing_error) as error,
         coalesce(k.since, e.failing_since, h.since, e.late_since, e.last_paused_at) as since,
         case when e.paused and (e.paused_reason is null or e.paused_code = any ($3::text[])) then null
              when k.code is not null then k.code
              when e.failing_since is not null then coalesce(e.failing_code, 'internal.unexpected')
              when h.n > 0 then 'intervals.missing'
              when e.late_since is not null then case when reads_long(e.id) then 'source.slow' else 'export.late' end
              when e.paused then 'export.paused' end as code,
         -- Of an export that works again: why its intervals were lost.
         case when k.code is null and e.failing_since is null and h.n > 0 then ${lostCode} end as lost_code,
         case when k.code is not null or e.failing_since is not null or h.n > 0 or e.late_since is not null or e.paused
              then concat_ws(' ', e.destination_type, ${placeOf}) end as destination
    from batch_exports e
    join projects p on p.id = e.team_id and p.closed_at is null
    join organizations o on o.id = p.organization_id
    join problems k on k.export_id = e.id
    left join (select export_id, count(*) as n, min(data_interval_end) as since, min(next_try_at) filter (where heals_since is not null) as next_try_at
                 from missing_intervals group by 1) h on h.export_id = e.id
   where e.deleted_at is null
), placed as (
  select j.*, case when coalesce(j.lost_code, j.code) = any ($1::text[]) then 'source'
                   when coalesce(j.lost_code, j.code) = any ($2::text[]) then 'ours' else 'customer' end as turn,
         case when j.code = any ($1::text[]) then j.model when j.code like 'destination.%' then j.destination else '' end as place
    from judged j
   where $4::text is null or j.organization ilike '%' || $4 || '%' or j.project ilike '%' || $4 || '%'
      or j.organization_id::text = lower($5) or j.team_id::text = $5 or coalesce(j.tenant_key, j.team_id::text) = $5
      or j.id::text = lower($5)
), named as (
  -- Most exports have no code: their ids would be half of the cost.
  select t.*, case when t.code is not null then md5(concat_ws(chr(31), t.code, t.place, case
             when t.turn <> 'customer' then '' when t.code like 'destination.%' then t.organization_id::text else t.id::text end)) end as cause_id
    from placed t
)`;

const values = ({ search }: CauseSearch): unknown[] => [
  codesOf('source'),
  // Who lost intervals is no longer known: any owner of the export can retry them.
  [...codesOf('ours'), ...conditionCodes.filter((code) => code !== 'intervals.missing')],
  disabledCodes,
  escapeLike(search),
  search,
];

/** The causes that hold up the most exports first. */
export const listCauses = queryPage<OperatorCause, [asked: CauseSearch, page: PageRequest]>(
  `with ${judged}
     select c.*, (select min(q.available_at) from outbox q join runs r on r.id = q.run_id and r.attempt > 0
                   where q.export_id = any (c.ids)) as "nextAttemptAt"
       from (select n.cause_id as id, min(n.turn) as turn, min(n.code) as code, min(n.place) as place,
                    case when count(distinct n.organization_id) = 1 then min(n.organization_id::text) end as "organizationId",
                    case when count(distinct n.organization_id) = 1 then min(n.organization) end as "organizationName",
                    count(distinct n.organization_id)::int as organizations, count(*)::int as exports,
                    count(*) filter (where n.paused)::int as "pausedExports", sum(n.missing)::int as "missingIntervals",
                    min(n.since) as since, (array_agg(n.error order by n.since desc))[1] as "latestError",
                    min(n.next_try_at) as "nextProbeAt", array_agg(n.id) as ids, count(*) over ()::int as count
               from named n
              where n.code is not null and ($6::text is null or n.turn = $6) and ($7::text is null or n.cause_id = $7)
              group by n.cause_id order by count(*) desc, min(n.since), n.cause_id limit $8 offset $9) c
      order by c.exports desc, c.since, c.id`,
  (asked, { limit, offset }) => [...values(asked), asked.turn, asked.causeId, limit, offset],
);

export interface OperatorExport
  extends Pick<OperatorCause, 'id' | 'since' | 'missingIntervals' | 'latestError' | 'nextProbeAt'> {
  readonly name: string;
  readonly teamId: number;
  readonly projectName: string;
  readonly organizationId: string;
  readonly organizationName: string;
  readonly health: ExportHealth;
  /** Null: nothing is wrong with it. */
  readonly causeId: string | null;
  readonly code: string | null;
  readonly turn: Turn | null;
  readonly paused: boolean;
  readonly completeUpTo: Timestamp | null;
}

/** Exports of all customers: those with a cause first, the oldest cause first. */
export async function listOperatorExports(
  sql: Sql,
  asked: CauseSearch & { readonly healths: readonly ExportHealth[] | null },
  { limit, offset }: PageRequest,
): Promise<OffsetPage<OperatorExport>> {
  const conditions = new Conditions();
  for (const value of values(asked)) conditions.parameter(value);
  conditions.add('(n.code is not null and n.turn = ?)', asked.turn);
  conditions.add('(n.code is not null and n.cause_id = ?)', asked.causeId);
  const health = `(select ${healthOfExport} from batch_exports e where e.id = n.id)`;
  conditions.add(`${health} = any (?)`, asked.healths);
  const page = `limit ${conditions.parameter(limit)} offset ${conditions.parameter(offset)}`;
  const where = conditions.sql === '' ? 'true' : conditions.sql;
  const rows = await sql.query<OperatorExport & { count: number }>(
    `with ${judged}
     select n.id, n.name, n.team_id as "teamId", n.project as "projectName", n.organization_id as "organizationId",
            n.organization as "organizationName", ${health} as health, n.code, n.paused, n.since, n.missing as "missingIntervals",
            case when n.code is not null then n.cause_id end as "causeId", case when n.code is not null then n.turn end as turn,
            n.error as "latestError", n.next_try_at as "nextProbeAt",
            (select w.high_water_mark from batch_exports w where w.id = n.id) as "completeUpTo", n.count
       from (select n.*, count(*) over ()::int as count
               from (select distinct on (n.id) n.* from named n where ${where} order by n.id, n.code is null, n.since, n.cause_id) n
              order by n.code is null, n.since, n.id ${page}) n
      order by n.code is null, n.since, n.id`,
    conditions.values,
  );
  return countedPage<OperatorExport>(rows);
}

export const findOwnerOf = queryFirst<
  { organizationId: string; teamId: number },
  [exportId: string]
>(`
     select p.organization_id as "organizationId", e.team_id as "teamId"
       from batch_exports e join projects p on p.id = e.team_id where e.id = $1 and e.deleted_at is null`);

/** The intervals of an export without data: the first one, and the range from it to the last one. */
export const findMissingRange = queryFirst<
  { first: DataInterval; all: DataInterval },
  [exportId: string]
>(`
     select ${rangeOf('f')} as first, ${rangeOf('g')} as all
       from (select min(data_interval_start) as start_at, max(data_interval_end) as end_at from missing_intervals where export_id = $1) g,
            (select data_interval_start as start_at, data_interval_end as end_at
               from missing_intervals where export_id = $1 order by data_interval_start limit 1) f`);
