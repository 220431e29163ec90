import type { Reprocess } from '../../../foundation/domain/backfill.ts';
import type { Schedule } from '../../../foundation/domain/schedule.ts';
import {
  type DataInterval,
  type Instant,
  type Timestamp,
  toTimestamp,
  toTimestampOrNull,
} from '../../../foundation/domain/time.ts';
import type { Sql, Transactor } from '../database/database.ts';
import {
  Conditions,
  type KeysetPage,
  type KeysetPosition,
  seek,
  toKeysetPage,
} from '../database/lists.ts';
import { plannedOnce, prepared, unflushed } from '../database/prepared.ts';
import {
  command,
  queryAny,
  queryFirst,
  queryNumber,
  queryOne,
  queryRows,
  queryValues,
} from '../database/statement.ts';
import { boundsOf, instantOf, rangeOf } from '../database/times.ts';
import { live } from '../runs/run-moves.ts';
import { makeRuns, type NewRun, valuesOf } from '../runs/runs.ts';

export type BackfillStatus = 'Running' | 'Completed' | 'Cancelled';
export type BackfillOrder = 'oldest_first' | 'newest_first';
export interface Backfill {
  readonly id: string;
  readonly exportId: string;
  readonly teamId: number;
  readonly status: BackfillStatus;
  /** Its range, widened to whole intervals. */
  readonly range: DataInterval;
  readonly order: BackfillOrder;
  readonly reprocess: Reprocess;
  /** True if its runs may replace files by others that lack delivered rows. */
  readonly dropsMissing: boolean;
  readonly concurrency: number;
  /** Start of the last planned interval; null before the first. */
  readonly plannedTo: Instant | null;
  readonly totalRuns: number;
  readonly createdAt: Timestamp;
  readonly finishedAt: Timestamp | null;
  /** Why Sluice stopped it; null if it did not. */
  readonly stoppedReason: string | null;
  readonly lastUpdatedAt: Timestamp;
}

/** The columns of `Backfill`, for a table aliased `b`. */
export const backfillColumns = `b.id, b.export_id as "exportId", b.team_id as "teamId", b.status,
  ${rangeOf('b')} as range, b."order", b.reprocess, b.drops_missing as "dropsMissing", b.concurrency,
  ${instantOf('b.planned_to')} as "plannedTo", b.total_runs as "totalRuns", b.created_at as "createdAt",
  b.finished_at as "finishedAt", b.stopped_reason as "stoppedReason", b.last_updated_at as "lastUpdatedAt"`;

export type NewBackfill = Omit<
  Backfill,
  'id' | 'status' | 'plannedTo' | 'stoppedReason' | 'createdAt' | 'finishedAt' | 'lastUpdatedAt'
>;

export async function insertBackfill(tx: Sql, backfill: NewBackfill): Promise<string> {
  const [row] = await tx.query<{ id: string }>(
    `insert into backfills (export_id, team_id, start_at, end_at, "order", reprocess, drops_missing, concurrency, total_runs)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning id`,
    [
      backfill.exportId,
      backfill.teamId,
      ...boundsOf(backfill.range),
      backfill.order,
      backfill.reprocess,
      backfill.dropsMissing,
      backfill.concurrency,
      backfill.totalRuns,
    ],
  );
  if (!row) throw new Error('the backfill was not stored');
  return row.id;
}

export const listRunningBackfills = queryValues<string>(
  `select id from backfills where status = 'Running'`,
);

export const findRunningRanges = queryRows<{ id: string; range: DataInterval }, [exportId: string]>(
  `select id, ${rangeOf('backfills')} as range from backfills where export_id = $1 and status = 'Running'`,
);

export const countRunningBackfills = queryNumber<[teamId: number]>(
  `select count(*)::int as n from backfills where team_id = $1 and status = 'Running'`,
);

export const finishBackfill = queryAny<[id: string, status: 'Completed' | 'Cancelled']>(`
     update backfills set status = $2, finished_at = now(), last_updated_at = now()
      where id = $1 and status = 'Running' returning id`);

/** If its newest `failures` runs that ended have all Failed. Only a failed run asks. @returns whether it has stopped now */
export const stopFailingBackfill = queryAny<[id: string, failures: number, reason: string]>(`
     update backfills set status = 'Cancelled', stopped_reason = left($3, 2000), finished_at = now(), last_updated_at = now()
      where id = $1 and status = 'Running' and $2 <= (
        select count(*) filter (where newest.status = 'Failed') from (
          select r.status from runs r where r.backfill_id = $1 and r.finished_at is not null and r.status <> 'Cancelled'
           order by r.finished_at desc limit $2) newest)
     returning id`);

export const cancelBackfillsOf = command<[exportId: string]>(`
     update backfills set status = 'Cancelled', finished_at = now(), last_updated_at = now()
      where export_id = $1 and status = 'Running'`);

export type PassesOver = (start: Instant) => boolean;

export const passesNothing: PassesOver = () => false;

/** The table whose rows decide, and whether an interval with a row there is passed over or is the only one that is not. */
const decisive = {
  failed: ['receipts', true],
  missing: ['holes', false],
  none: ['runs', true],
} as const;

const passesOver = (rows: readonly { start: Instant }[], isPassed: boolean): PassesOver => {
  if (rows.length === 0 && isPassed) return passesNothing;
  const starts = new Set(rows.map(({ start }) => start));
  return (start) => starts.has(start) === isPassed;
};

/** Those with a receipt (`failed`), without a hole (`missing`), or with any run (`none`). @param starts of the intervals */
export async function findPassedOver(
  tx: Sql,
  exportId: string,
  starts: readonly Instant[],
  reprocess: Exclude<Reprocess, 'all'>,
): Promise<PassesOver> {
  const [table, isPassed] = decisive[reprocess];
  const rows = await tx.query<{ start: Instant }>(
    `select distinct ${instantOf('data_interval_start')} as start from ${table}
      where export_id = $1 and data_interval_start = any ($2::timestamptz[])`,
    [exportId, starts.map(toTimestamp)],
  );
  return passesOver(rows, isPassed);
}

/** The same rule for a range. Intervals with a live run are passed over too; with `all`, not those whose run has begun: it may lack newer rows. */
export async function findPassedOverIn(
  sql: Sql,
  exportId: string,
  range: DataInterval,
  reprocess: Reprocess,
): Promise<PassesOver> {
  const startsIn = async (table: string, more: string) =>
    sql.query<{ start: Instant }>(
      `select distinct ${instantOf('data_interval_start')} as start from ${table}
        where export_id = $1 and data_interval_start >= $2 and data_interval_start < $3 ${more}`,
      [exportId, ...boundsOf(range)],
    );
  const counted = reprocess === 'all' ? 'and started_at is null' : '';
  const isLive = passesOver(await startsIn('runs', `and status in ${live} ${counted}`), true);
  if (reprocess === 'all') return isLive;
  const [table, isPassed] = decisive[reprocess];
  const isDecided = passesOver(await startsIn(table, ''), isPassed);
  return (start) => isLive(start) || isDecided(start);
}

export interface BackfillWithProgress extends Backfill {
  readonly finishedRuns: number;
  readonly failedRuns: number;
  readonly rows: number;
  readonly bytes: number;
  /** From its start to its end, or until now, by Postgres' clock. */
  readonly elapsedMs: number;
}

const columns = `${backfillColumns}, p.finished as "finishedRuns", p.failed as "failedRuns", p.rows, p.bytes,
  floor(extract(epoch from coalesce(b.finished_at, clock_timestamp()) - b.created_at) * 1000)::bigint as "elapsedMs"`;

const progress = `lateral (
    select count(*) filter (where r.finished_at is not null)::int as finished,
           count(*) filter (where r.status in ('Failed', 'FailedRetryable'))::int as failed,
           coalesce(sum(r.records_completed) filter (where r.status = 'Completed'), 0)::bigint as rows,
           coalesce(sum(r.bytes_exported) filter (where r.status = 'Completed'), 0)::bigint as bytes
      from runs r where r.backfill_id = b.id) as p`;

export const findBackfill = queryFirst<BackfillWithProgress, [exportId: string, id: string]>(
  `select ${columns} from backfills b, ${progress} where b.id = $1 and b.export_id = $2`,
  (exportId, id) => [id, exportId],
);

export async function listBackfills(
  sql: Sql,
  exportId: string,
  position: KeysetPosition | null,
  limit: number,
): Promise<KeysetPage<BackfillWithProgress>> {
  const conditions = new Conditions().add('b.export_id = ?', exportId);
  const order = { column: 'b.created_at', descending: true };
  const page = seek(conditions, order, 'b.id', position, limit);
  const rows = await sql.query<BackfillWithProgress>(
    `select ${columns} from backfills b, ${progress} where ${conditions.sql} ${page}`,
    conditions.values,
  );
  return toKeysetPage(rows, position, limit);
}

/** Rows and bytes per run over the newest hundred completed ones; null if there is none. */
export const averageOfRuns = queryOne<
  { rows: number | null; bytes: number | null },
  [exportId: string]
>(
  `select avg(newest.records_total_count)::float8 as rows, avg(newest.bytes_exported)::float8 as bytes
       from (select records_total_count, bytes_exported from runs
              where export_id = $1 and status = 'Completed' order by created_at desc, id desc limit 100) as newest`,
);

/** A running backfill, with what its next page depends on. */
export interface AdvancingBackfill extends Backfill {
  readonly schedule: Schedule;
  /** Its runs that have not ended. */
  readonly liveRuns: number;
  /** Starts of intervals with a live run that began before the backfill was asked for: it may lack newer rows. */
  readonly begunBefore: readonly Instant[];
}

const findSql =
  plannedOnce(`select ${backfillColumns}, e.schedule, (select count(*)::int from runs r where r.backfill_id = b.id and r.status in ${live}) as "liveRuns",
            (select coalesce(json_agg(${instantOf('r.data_interval_start')}), '[]') from runs r where r.export_id = b.export_id
                and r.data_interval_start >= b.start_at and r.data_interval_start < b.end_at
                and r.status in ${live} and r.started_at < b.created_at) as "begunBefore"
       from backfills b join batch_exports e on e.id = b.export_id where b.id = any ($1::uuid[]) and b.status = 'Running'`);

/** Locks nothing: a page notices if another worker has advanced a backfill. In the order of the ids; null: it has ended. */
export async function findAdvancing(
  sql: Sql,
  ids: readonly string[],
): Promise<readonly (AdvancingBackfill | null)[]> {
  const advancing = await sql.query<AdvancingBackfill>(findSql, [ids]);
  const byId = new Map(advancing.map((backfill) => [backfill.id, backfill]));
  return ids.map((id) => byId.get(id) ?? null);
}

export interface PlannedPage {
  readonly backfillId: string;
  /** The end of its plan when the page was made; null: not yet. */
  readonly after: Instant | null;
  /** The end of its plan then. */
  readonly plannedTo: Instant;
  /** Intervals of the page. Those that get no run no longer count towards the total. */
  readonly intervals: number;
  readonly runs: readonly NewRun[];
}

const planPages = (locks: string) =>
  plannedOnce(`with held as materialized (
       select b.id, page.planned_to, page.intervals
         from unnest($8::uuid[], $9::timestamptz[], $10::timestamptz[], $11::int[]) as page (backfill_id, after, planned_to, intervals)
         join backfills b on b.id = page.backfill_id join batch_exports e on e.id = b.export_id
        where b.status = 'Running' and b.planned_to is not distinct from page.after and ${unflushed} ${locks}
     ), ${makeRuns('w.backfill_id in (select id from held)')}, planned as (
       update backfills b set planned_to = held.planned_to, last_updated_at = now(),
              total_runs = total_runs - (held.intervals - (select count(*)::int from made where made.backfill_id = held.id))
         from held where b.id = held.id
     )
     select id, (select count(*)::int from made where made.backfill_id = held.id) as made from held`);

/** An export of another mode than append. */
const lockOther = prepared(
  `select from batch_exports e where e.id = (select export_id from backfills where id = $1) and e.mode <> 'append' for no key update`,
);
const planWaiting = planPages('for no key update of b');
/** The runs refer to the export. Of another mode it must be locked. */
const planFree = planPages(
  `and e.mode = 'append' for no key update of b skip locked for key share of e skip locked`,
);

/** Makes the runs of a page, as `insertRuns` does. Waits for the backfill's row. @returns how many; null as `planFreePages` */
export function planLockedPage(db: Transactor, page: PlannedPage): Promise<number | null> {
  return db.transaction(async (tx) => {
    // The schedule locks it too, so that runs of both come one after the other.
    await tx.query(lockOther, [page.backfillId]);
    const [made] = await plan(tx, planWaiting, [page]);
    return made ?? null;
  });
}

/** Waits for no lock. @returns how many runs, by page; null: ended, advanced, locked, or of another mode than append */
export async function planFreePages(
  sql: Sql,
  pages: readonly PlannedPage[],
): Promise<readonly (number | null)[]> {
  return plan(sql, planFree, pages);
}

async function plan(
  sql: Sql,
  text: string,
  pages: readonly PlannedPage[],
): Promise<readonly (number | null)[]> {
  const planned = await sql.query<{ id: string; made: number }>(text, [
    ...valuesOf(pages.flatMap(({ runs }) => runs)),
    pages.map(({ backfillId }) => backfillId),
    pages.map(({ after }) => toTimestampOrNull(after)),
    pages.map(({ plannedTo }) => toTimestamp(plannedTo)),
    pages.map(({ intervals }) => intervals),
  ]);
  const runCounts = new Map(planned.map((one) => [one.id, one.made]));
  return pages.map(({ backfillId }) => runCounts.get(backfillId) ?? null);
}
