import type { Schedule } from '../../../foundation/domain/schedule.ts';
import { type Instant, toTimestamp, toTimestampOrNull } from '../../../foundation/domain/time.ts';
import { type Backfill, backfillColumns } from './backfills.ts';
import type { Sql, Transactor } from '../database/database.ts';
import { plannedOnce, prepared, unflushed } from '../database/prepared.ts';
import { live } from '../runs/run-moves.ts';
import { makeRuns, type NewRun, valuesOf } from '../runs/runs.ts';
import { instantOf } from '../database/times.ts';

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
