import type { ExportHealth } from '../../../foundation/domain/batch-export.ts';
import {
  type CoverageRange,
  type CoverageState,
  type Healing,
  type LateRowsWait,
  type MissingIntervals,
  maxMissingCounted,
} from '../../../foundation/domain/coverage.ts';
import type { DataInterval, Instant } from '../../../foundation/domain/time.ts';
import { type Backfill, backfillColumns } from '../exports/backfills.ts';
import type { Sql } from '../database/database.ts';
import { command, queryRows, queryValue } from '../database/statement.ts';
import { healthOf } from '../exports/export-states.ts';
import { healingColumn } from '../healing/healing.ts';
import { lateRowsWait } from './look-backs.ts';
import { prepared } from '../database/prepared.ts';
import { hasFailedAttempt, live } from '../runs/run-moves.ts';
import { boundLists, boundsOf, instantOf, isSameInterval } from '../database/times.ts';

/** SQL that is true if `table` has the interval of a row of `of`. */
const has = (table: string, of: string, more = 'true'): string =>
  `exists (select from ${table} x where x.export_id = ${of}.export_id
     and x.data_interval_start = ${of}.data_interval_start and x.data_interval_end = ${of}.data_interval_end and ${more})`;

const bounds = 'data_interval_start, data_interval_end';
const inRange = (table: string): string =>
  `${table}.export_id = $1 and ${table}.data_interval_start >= $2 and ${table}.data_interval_start < $3`;

const unsettled = `select c.* from receipts c where not c.settled and ${inRange('c')}`;

/** All intervals that are not simply done: few, usually. `done` comes from the receipts' index alone, because their rows are wide. */
const exceptions = `
  select case when ${hasFailedAttempt('r')} then 'retrying' else 'running' end as state, ${bounds}
    from runs r where r.status in ${live} and ${inRange('r')} and not ${has('receipts', 'r')}
  union all
  select case
         when last.status = 'Cancelled' then 'cancelled'
         when coalesce(last.status, 'FailedRetryable') = 'FailedRetryable' and h.heals_since is not null then 'healing'
         when last.status is null then 'missing' else 'failed' end, ${bounds}
    from holes h left join lateral (
      select r.status from runs r where ${isSameInterval('r', 'h')} order by r.generation desc limit 1) as last on true
   where ${inRange('h')} and (last.status is null or last.status not in ${live})
  union all
  select 'unsettled', ${bounds} from unsettled
  union all
  select 'late_rows', ${bounds} from receipts c where ${lateRowsWait} and ${inRange('c')}
  union all
  select case when a.superseded_by is null then 'accepted' else 'superseded' end, ${bounds} from accepted_intervals a
   where ${inRange('a')} and (not ${has('receipts', 'a')} or ${has('unsettled', 'a')})`;

const edgeColumns = `${instantOf('data_interval_start')} as start, ${instantOf('data_interval_end')} as "end"`;

/** The first and the last row of each stretch of neighbours of one state. */
const edgesOf = (rows: string): string => `
  select state, ${edgeColumns}, null::bigint as "before", opens from (
    select *, lag(data_interval_end) over w is distinct from data_interval_start as opens,
           lead(data_interval_start) over w is distinct from data_interval_end as closes
      from (${rows}) as rows window w as (partition by state order by data_interval_start)) as edges
   where opens or closes`;

/** Edges of `done`: the first row of each stretch, with the end of the one before, and the last row. Two neighbours would cost twice as much. */
const doneEdges = `
  select 'done' as state, ${edgeColumns}, ${instantOf('ended')} as "before", true as opens from (
    select ${bounds}, lag(data_interval_end) over (order by data_interval_start) as ended
      from receipts c where ${inRange('c')}) as edges
   where ended is distinct from data_interval_start
  union all
  (select 'done', ${edgeColumns}, null, false from receipts c where ${inRange('c')}
    order by data_interval_start desc limit 1)`;

interface Edge extends CoverageRange {
  readonly opens: boolean;
  /** End of the stretch before this one, if this row says it. */
  readonly before: Instant | null;
}

/** States of the intervals that start in `range`, as stretches that may overlap. Reads an entry of an index for each interval: limit the range. */
export async function findCoverage(
  sql: Sql,
  exportId: string,
  range: DataInterval,
): Promise<CoverageRange[]> {
  const edges = await sql.query<Edge>(
    `with unsettled as materialized (${unsettled})
     (${doneEdges})
     union all
     ${edgesOf(exceptions)}`,
    [exportId, ...boundsOf(range)],
  );
  return joinEdges(edges);
}

/** Of stretches without runs and receipts: `paused` if they came during a pause, `missing` if their run was deleted. */
export async function findTicksWithoutRun(
  sql: Sql,
  exportId: string,
  gaps: readonly DataInterval[],
): Promise<CoverageRange[]> {
  const ticks = `select case t.fate when 'ran' then 'missing' else t.fate end as state, t.data_interval_start, t.data_interval_end
      from unnest($2::timestamptz[], $3::timestamptz[]) as g (gap_start, gap_end) join ticks t
        on t.export_id = $1 and t.fate in ('ran', 'paused') and t.data_interval_start >= g.gap_start and t.data_interval_start < g.gap_end`;
  return joinEdges(await sql.query<Edge>(edgesOf(ticks), [exportId, ...boundLists(gaps)]));
}

function joinEdges(edges: readonly Edge[]): CoverageRange[] {
  const ranges = new Map<CoverageState, CoverageRange[]>();
  const opensFirst = (a: Edge, b: Edge) => a.start - b.start || Number(b.opens) - Number(a.opens);
  for (const { state, start, end, opens, before } of edges.toSorted(opensFirst)) {
    const own = ranges.get(state) ?? [];
    ranges.set(state, own);
    const last = own.at(-1);
    if (last && before !== null) own[own.length - 1] = { ...last, end: before };
    if (opens || !last) own.push({ state, start, end });
    else own[own.length - 1] = { ...last, end };
  }
  return [...ranges.values()].flat();
}

/** Intervals of `range` whose late rows wait for a person, oldest first, up to `limit`. */
export const listLateRowsWaits = queryRows<
  LateRowsWait,
  [exportId: string, range: DataInterval, limit: number]
>(
  `select ${edgeColumns}, late_rows_wait as why from receipts c
      where ${lateRowsWait} and ${inRange('c')} order by data_interval_start limit $4`,
  (exportId, range, limit) => [exportId, ...boundsOf(range), limit],
);

/** The running backfills of an export, whole: they say how far they have come. */
export const listBackfillsUnderWay = queryRows<Backfill, [exportId: string]>(
  `select ${backfillColumns} from backfills b where b.export_id = $1 and b.status = 'Running'`,
);

const oldestIn = (table: string) =>
  `(select min(data_interval_start) from ${table} where export_id = $1)`;

/** Start of the oldest interval of an export that was ever asked for; null if there is none. */
export const findOldestInterval = queryValue<Instant, [exportId: string]>(
  `select ${instantOf(`least(${['receipts', 'runs', 'ticks', 'holes'].map(oldestIn).join(', ')})`)} as oldest`,
);

/** Null if none ran. An export without a high-water mark will get it from here on. */
export const findFirstTick = queryValue<Instant, [exportId: string]>(`
     select ${instantOf('data_interval_start')} as start from ticks
      where export_id = $1 and fate = 'ran' order by data_interval_start limit 1`);

export interface Holes {
  readonly missing: MissingIntervals;
  /** Start of the oldest exported interval that may still receive rows; null if there is none. */
  readonly unsettledFrom: Instant | null;
  readonly health: ExportHealth;
  readonly healing: Healing | null;
}

export interface HolesRow {
  readonly exportId: string;
  readonly teamId: number;
  readonly holes: number;
  readonly holesSince: Instant | null;
  readonly unsettledFrom: Instant | null;
  readonly health: ExportHealth;
  readonly healing: Healing | null;
}

export const holesColumns = `e.id as "exportId", e.team_id as "teamId", h.count as holes, ${healthOf('h.count > 0')} as health,
  ${healingColumn} as healing, ${instantOf('h.since')} as "holesSince", ${instantOf('u.start')} as "unsettledFrom"`;

/** Their cost depends on the number of holes, not of intervals. */
export const holesFrom = `batch_exports e
     cross join lateral (select count(*) as count, min(data_interval_start) as since from (
       select h.data_interval_start from missing_intervals h
        where h.export_id = e.id order by h.data_interval_start limit ${maxMissingCounted}) as counted) as h
     left join lateral (
       select c.data_interval_start as start from receipts c
        where c.export_id = e.id and not c.settled and not ${has('accepted_intervals', 'c')}
        order by c.data_interval_start limit 1) as u on true`;

export const toHoles = ({
  holes,
  holesSince,
  unsettledFrom,
  health,
  healing,
}: HolesRow): Holes => ({
  missing: { count: holes, since: holesSince },
  unsettledFrom,
  health,
  healing,
});

const holesOfOne = prepared(
  `select ${holesColumns} from ${holesFrom} where e.id = (select $1::uuid)`,
);

/** Null: there is no such export. */
export async function findHoles(sql: Sql, exportId: string): Promise<Holes | null> {
  const [row] = await sql.query<HolesRow>(holesOfOne, [exportId]);
  return row ? toHoles(row) : null;
}

/** Accepts intervals of an export that the transaction has locked. Accepting one again changes nothing. */
export const acceptIntervals = command(
  `with accepted as (
       select * from unnest($2::timestamptz[], $3::timestamptz[]) as i (interval_start, interval_end)
     ), filled as (
       delete from holes h using accepted i
        where h.export_id = $1 and h.data_interval_start = i.interval_start and h.data_interval_end = i.interval_end
     ), owed as (
       delete from late_intervals l using accepted i
        where l.export_id = $1 and l.data_interval_start = i.interval_start and l.data_interval_end = i.interval_end and l.delivered_at is null
     )
     insert into accepted_intervals (export_id, data_interval_start, data_interval_end)
     select $1, interval_start, interval_end from accepted
     on conflict (export_id, data_interval_start, data_interval_end) do update set accepted_at = now()`,
  (exportId: string, intervals: readonly DataInterval[]) => [exportId, ...boundLists(intervals)],
);
