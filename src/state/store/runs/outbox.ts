import type { QueuedRun } from '../../../foundation/domain/run.ts';
import type { Sql } from '../database/database.ts';
import { anyNumber, isAny, unflushed } from '../database/prepared.ts';
import { hasNotEnded, running } from './run-moves.ts';
import { instantOf, isTime, longerThanAnyWait } from '../database/times.ts';
import { capacityNow, smallCapacityNow } from './workers.ts';

const queuedRun = (
  lane: string,
) => `team_id as "projectId", export_id as "exportId", ${lane} as "backfillId",
  ${instantOf('data_interval_start')} as "intervalStart", small`;
/** The columns of an entry. */
const queuedRunColumns = queuedRun('backfill_id');

/** SQL of the lane behind live runs that a run is in: its backfill, or what heals in its export. Null: it is a live run. */
export const laneOf = `coalesce(backfill_id, case when heals then export_id end)`;

/** The most that the neighbours of a run may have in their files, if it is expected to be small. */
const smallBytes = 128 * 1024;
const smallRows = 2_000;
/** How long all runs of an export count as large, once one has read more than a small run may. */
const largeFor = `interval '1 day'`;

/**
 * SQL that says whether a run is expected to be small: what the intervals just before it, and the one after, had. If
 * none has completed, it is: a run that turns out to be large needs only one round trip to find out. A run that reads
 * files is not. Reads at most four receipts.
 */
export const isSmall = (run: string): string =>
  `(${run}.purpose = 'whole'
    and not ${isAny(`from batch_exports e where e.id = ${run}.export_id and e.outgrew_at >= now() - ${largeFor}`)}
    and coalesce((select max(near.bytes) <= ${smallBytes} and max(near.rows) <= ${smallRows} from (
        (select c.bytes, c.rows from receipts c where c.export_id = ${run}.export_id and c.data_interval_start < ${run}.data_interval_start
          order by c.data_interval_start desc limit 3)
        union all
        (select c.bytes, c.rows from receipts c where c.export_id = ${run}.export_id and c.data_interval_start >= ${run}.data_interval_start
          order by c.data_interval_start limit 1)) near), true))`;

/**
 * SQL that adds runs to the outbox; the only way to do so.
 *
 * @param rows a table of this statement with the columns id, team_id, export_id, backfill_id,
 *   data_interval_start and purpose of runs
 * @param availableAt SQL of the time before which no attempt begins
 * @param small SQL that says whether a run is expected to be small
 */
export const enqueueRuns = (rows: string, availableAt = 'now()', small = isSmall(rows)): string =>
  `insert into outbox (run_id, team_id, export_id, backfill_id, data_interval_start, available_at, ready, small)
   select id, team_id, export_id, backfill_id, data_interval_start, ${availableAt}, ${availableAt} <= now(), ${small} from ${rows}`;

/**
 * Makes runs whose time has come visible to the dispatcher: retries after their backoff, ticks after their
 * jitter. If the clock went back since, they are due at once.
 */
export async function markReady(tx: Sql): Promise<void> {
  await tx.query(
    `update outbox set ready = true, available_at = least(available_at, now()) where run_id = any (array(
       (select run_id from outbox where not ready and available_at <= now() order by available_at limit 10000)
       union all
       (select run_id from outbox where not ready and available_at > now() + ${longerThanAnyWait} limit 10000)))`,
  );
}

const isWaiting = `ready and dispatched_at is null`;

/** Runs of each team that a short list has at least, if they wait. If many teams wait, each gets few of the free slots. */
const shortest = 6;

/** SQL that is true for an entry of a run that has not ended. An entry of an ended run would never be answered. */
const ofLive = (entry: string): string =>
  `(select ${hasNotEnded('r')} from runs r where r.id = ${entry}.run_id)`;

/** What is left out of the waiting runs of one kind. */
export interface ListLimits {
  /** How many of a team are read at most. */
  readonly most: number;
  /**
   * Whether of the organizations whose next run is in their first turn only those are read that go first: twice as many as
   * the queue has room for. Then none of the others is read.
   */
  readonly isCut: boolean;
}

/** What a dispatcher chooses by, of one moment. */
export interface DispatchState {
  /** The turn of this moment: `dispatch` refuses a choice that another one has overtaken. */
  readonly turn: number;
  /** Slots of all workers that reported lately. */
  readonly capacity: number;
  /** Their slots for small runs. */
  readonly smallCapacity: number;
  readonly limits: { readonly small: ListLimits; readonly other: ListLimits };
  /**
   * The first waiting runs of each team, small or not, live before backfill, oldest interval first. None if the queue has no
   * room. One index descent per team, however many wait, and one more for each that is read.
   */
  readonly waiting: readonly QueuedRun[];
  /** Runs that are enqueued. */
  readonly queued: readonly QueuedRun[];
  readonly executing: readonly QueuedRun[];
}

/** The order of waiting runs within a team: live before backfill, then the oldest interval. */
const inOrder = `(backfill_id is not null), data_interval_start, run_id`;

/** PostgreSQL plans it each time, for the rows that wait at this moment: a plan of an empty queue reads all that waits. */
const dispatchState = `with recursive sent as materialized (
       -- In an order that only the index has: what waits is not read.
       select o.* from (select * from outbox where dispatched_at is not null order by dispatched_at ${anyNumber}) o where ${ofLive('o')}
     ), executing as materialized (
       -- In the order of the index of running runs: that of live ones has all that wait.
       select id as run_id, ${queuedRun(laneOf)} from runs where status = ${running} and lease_expires_at > now() order by id
     ), now as materialized (
       select (select turn from dispatch_turn) as turn, ${capacityNow} as capacity, ${smallCapacityNow} as "smallCapacity"
     ), rooms as materialized (
       -- Without slots of their own, small runs use those of large ones.
       select *, greatest(1, free) as room from (
         select k.small, k.small and "smallCapacity" > 0 as is_small_slot,
                2 * (case when k.small and "smallCapacity" > 0 then "smallCapacity" else capacity end)
                  - (select count(*)::int from sent where sent.small = k.small or "smallCapacity" = 0) as free
           from now cross join (values (true), (false)) k (small)) k
     ), lists as (
       -- The first run of each team that is small, or not, if there is room: one index descent each.
       (select team_id, small, (backfill_id is not null) as behind, data_interval_start as start, run_id
          from outbox where ${isWaiting} and (select bool_or(free > 0) from rooms) order by team_id, small, ${inOrder} limit 1)
       union all
       select next.* from lists l cross join lateral (
         select team_id, small, (backfill_id is not null), data_interval_start, run_id
           from outbox where ${isWaiting} and (team_id, small) > (l.team_id, l.small) order by team_id, small, ${inOrder} limit 1) next
     ), firsts as materialized (
       select l.*, r.room, r.is_small_slot, p.organization_id
         from lists l join rooms r on r.small = l.small join projects p on p.id = l.team_id
     ), in_flight as materialized (
       select p.organization_id, r.is_small_slot, count(*)::int as runs
         from (select team_id, small from sent union all select "projectId", small from executing) f
         join rooms r on r.small = f.small join projects p on p.id = f.team_id group by 1, 2
     ), first_turns as materialized (
       -- Organizations whose next run is in their first turn, in the order of these runs.
       select organization_id, is_small_slot, room, row_number() over (partition by is_small_slot order by behind, start, team_id, run_id) as place
         from (select distinct on (organization_id, is_small_slot) * from firsts
                order by organization_id, is_small_slot, behind, start, team_id, run_id) f
        where (organization_id, is_small_slot) not in (
          select organization_id, is_small_slot from in_flight where runs >= case when is_small_slot then $4 else 1 end)
     ), kinds as materialized (
       select r.*, $3 and (select count(*) from first_turns f where f.is_small_slot = r.is_small_slot) > 2 * r.room as is_cut,
              case when $2 then least($1, room, greatest(${shortest}, ceil(2.0 * room / nullif((select count(distinct team_id) from lists), 0))::int)) else $1 end as most
         from rooms r
     ), seen as (
       select 'waiting' as kind, w.* from firsts l join kinds k on k.small = l.small cross join lateral (
         select run_id as "runId", ${queuedRunColumns} from outbox
          where team_id = l.team_id and outbox.small = l.small and ${isWaiting} order by ${inOrder} limit k.most
       ) w
        where not k.is_cut or (l.organization_id, l.is_small_slot) in (
          select organization_id, is_small_slot from first_turns where place <= 2 * room)
       union all
       select 'queued', run_id, ${queuedRunColumns} from sent
       union all
       select 'running', executing.* from executing
     )
     select now.turn, now.capacity, now."smallCapacity", p.organization_id as "organizationId", seen.*,
            (select most from kinds where small) as "mostSmall", (select most from kinds where not small) as "mostOther",
            (select is_cut from kinds where small) as "isCutSmall", (select is_cut from kinds where not small) as "isCutOther"
       from now left join seen on true left join projects p on p.id = seen."projectId"`;

type SeenRun = QueuedRun & { readonly kind: 'waiting' | 'queued' | 'running' };
type StateRow = Pick<DispatchState, 'turn' | 'capacity' | 'smallCapacity'> & {
  readonly mostSmall: number;
  readonly mostOther: number;
  readonly isCutSmall: boolean;
  readonly isCutOther: boolean;
} & (SeenRun | { readonly kind: null });

/** How much of what waits is read. */
export interface DispatchReading {
  /** Waiting runs of each team. */
  readonly most: number;
  /** Whether there may be fewer: of each team twice its share of what the queue has room for, which is about two runs for each slot. */
  readonly isShort: boolean;
  /** Whether organizations may be left out. */
  readonly mayCut: boolean;
  /** Small runs of one organization that have a turn together. */
  readonly perTurn: number;
}

export async function readDispatchState(
  sql: Sql,
  { most, isShort, mayCut, perTurn }: DispatchReading,
): Promise<DispatchState> {
  const rows = await sql.query<StateRow>(dispatchState, [most, isShort, mayCut, perTurn]);
  const seen = rows.filter((row): row is StateRow & SeenRun => row.kind !== null);
  const [now] = rows;
  const ofKind = (wanted: SeenRun['kind']) => seen.filter(({ kind }) => kind === wanted);
  return {
    ...{
      turn: now?.turn ?? 0,
      capacity: now?.capacity ?? 0,
      smallCapacity: now?.smallCapacity ?? 0,
    },
    limits: {
      small: { most: now?.mostSmall ?? most, isCut: now?.isCutSmall ?? false },
      other: { most: now?.mostOther ?? most, isCut: now?.isCutOther ?? false },
    },
    ...{ waiting: ofKind('waiting'), queued: ofKind('queued'), executing: ofKind('running') },
  };
}

/** Makes other dispatchers wait until the transaction ends, so that none can overtake it. */
export async function lockDispatch(tx: Sql): Promise<void> {
  await tx.query('select from dispatch_turn for update');
}

/**
 * Finds waiting runs of teams whose list one export fills: the first `perExport` live runs of each export, and the
 * first `perTeam` of backfills, small or not. One index descent per export.
 */
export async function findWaitingByExport(
  tx: Sql,
  teamIds: readonly number[],
  perExport: number,
  perTeam: number,
): Promise<QueuedRun[]> {
  const isLive = `o.ready and o.dispatched_at is null and o.backfill_id is null and o.team_id = t.team_id`;
  return tx.query<QueuedRun>(
    `select p.organization_id as "organizationId", w.* from unnest($1::int[]) t (team_id)
       join projects p on p.id = t.team_id cross join lateral (
       with recursive lanes as (
         (select o.export_id from outbox o where ${isLive} order by o.export_id limit 1)
         union all
         select (select o.export_id from outbox o where ${isLive} and o.export_id > l.export_id order by o.export_id limit 1)
           from lanes l where l.export_id is not null
       )
       select r.* from lanes l cross join lateral (
         select run_id as "runId", ${queuedRunColumns} from outbox o
          where ${isLive} and o.export_id = l.export_id order by data_interval_start limit $2
       ) r where l.export_id is not null
       union all
       select b.* from (values (true), (false)) kinds (small) cross join lateral (
         select run_id as "runId", ${queuedRunColumns} from outbox o
          where o.team_id = t.team_id and o.small = kinds.small and ${isWaiting} and (backfill_id is not null)
          order by data_interval_start limit $3) b
     ) w`,
    [teamIds, perExport, perTeam],
  );
}

/** A run to enqueue, and how often it has been enqueued while it waits. */
export interface EnqueuedRun {
  readonly runId: string;
  readonly timesEnqueued: number;
  /** For the queue of small runs; no if no worker has slots for them. */
  readonly small: boolean;
}

/** Planned each time, for what is in the outbox now: a plan of an empty one reads all that waits. */
const dispatchRows = `with taken as (
       update dispatch_turn set turn = turn + 1, taken_at = now() where turn = $1 and ${unflushed} returning turn
     ), marked as (
       update outbox set dispatched_at = clock_timestamp(), times_enqueued = times_enqueued + 1 from taken
        where run_id = any ($2::uuid[]) and dispatched_at is null returning run_id, times_enqueued, small
     )
     select coalesce((select jsonb_agg(jsonb_build_object('runId', run_id, 'timesEnqueued', times_enqueued, 'small', small and ${smallCapacityNow} > 0)) from marked), '[]') as runs
       from taken`;

/**
 * Notes that runs are enqueued, which were chosen in this turn. If the database dies in the next moment, they
 * may be enqueued twice, as any job may.
 *
 * @returns the runs that still wait; null if another dispatcher was faster: choose again
 */
export async function dispatch(
  sql: Sql,
  turn: number,
  runIds: readonly string[],
): Promise<readonly EnqueuedRun[] | null> {
  const [row] = await sql.query<{ runs: EnqueuedRun[] }>(dispatchRows, [turn, runIds]);
  return row?.runs ?? null;
}

/** Notes that runs are enqueued again. */
export async function markDispatched(sql: Sql, runIds: readonly string[]): Promise<EnqueuedRun[]> {
  return sql.query<EnqueuedRun>(
    `update outbox set dispatched_at = clock_timestamp(), times_enqueued = times_enqueued + 1
      where run_id = any ($1::uuid[]) and dispatched_at is not null returning run_id as "runId", times_enqueued as "timesEnqueued", small and ${smallCapacityNow} > 0 as small`,
    [runIds],
  );
}

/** Undoes a dispatch that the queue did not accept. */
export async function unmarkDispatched(sql: Sql, runIds: readonly string[]): Promise<void> {
  await sql.query(`update outbox set dispatched_at = null where run_id = any ($1::uuid[])`, [
    runIds,
  ]);
}

/**
 * Runs that were enqueued longer than `afterMs` ago and are still unclaimed: the queue may have lost them.
 * A time in the future means that the clock went back since.
 */
export async function findUnanswered(tx: Sql, afterMs: number): Promise<string[]> {
  const rows = await tx.query<{ runId: string }>(
    `select run_id as "runId" from outbox
      where (dispatched_at < clock_timestamp() - $1 * interval '1 ms'
         or dispatched_at > clock_timestamp() + interval '1 s') and ${ofLive('outbox')}`,
    [afterMs],
  );
  return rows.map((row) => row.runId);
}

/**
 * Deletes entries of ended runs. There are none: whatever ends a run deletes its entry. But one such entry would
 * use a slot of its export for good.
 *
 * @returns how many it found
 */
export async function removeEndedEntries(sql: Sql): Promise<number> {
  const rows = await sql.query(
    `delete from outbox where dispatched_at is not null and not ${ofLive('outbox')} returning 1`,
  );
  return rows.length;
}

/**
 * How long the dispatcher has enqueued nothing although a run waits, no run is executed and workers have slots.
 *
 * @returns seconds; null if it works
 */
export async function findStalledDispatch(sql: Sql, afterSeconds: number): Promise<number | null> {
  const [row] = await sql.query<{ seconds: number }>(
    `select floor(extract(epoch from now() - d.taken_at))::float8 as seconds from dispatch_turn d
      where d.taken_at < now() - $1 * interval '1 s' and ${capacityNow} > 0
        and exists (select from outbox where ready and available_at < now() - $1 * interval '1 s')
        and not exists (select from runs where status = ${running} and lease_expires_at > now())`,
    [afterSeconds],
  );
  return row?.seconds ?? null;
}

/** A run that goes back to the outbox, because transactions of its source may still add rows to its interval. */
export interface WaitingRun {
  readonly runId: string;
  /** When it comes to a worker again. */
  readonly forMs: number;
  /** The names of what it waits for, which its next look needs; null if its source has named nothing yet. */
  readonly pending: readonly string[] | null;
  /** The same in words for its owner. */
  readonly blockers: readonly string[];
}

/**
 * Puts runs back. They were not claimed, so this is no attempt. May be repeated if the answer was lost.
 *
 * @returns for each whether it is its first wait since its last attempt; null if it is not due: it has ended, went back already,
 *   or another worker has claimed it
 */
export async function goBack(
  sql: Sql,
  runs: readonly WaitingRun[],
): Promise<readonly (boolean | null)[]> {
  const rows = await sql.query<{ runId: string; isFirst: boolean }>(
    `with due as materialized (
       select run_id from outbox where run_id = any ($1::uuid[]) and (ready or ${isTime('available_at')}) order by run_id for update
     )
     update outbox o set available_at = now() + w.for_ms * interval '1 ms', ready = false, dispatched_at = null, times_enqueued = 0,
            waits_since = coalesce(o.waits_since, now()), waits_for = w.waits_for
       from due join unnest($1::uuid[], $2::float8[], $3::jsonb[]) as w (run_id, for_ms, waits_for) using (run_id)
      where o.run_id = due.run_id returning o.run_id as "runId", o.waits_since = now() as "isFirst"`,
    [
      runs.map(({ runId }) => runId),
      runs.map(({ forMs }) => forMs),
      runs.map(({ pending, blockers }) => JSON.stringify({ pending, blockers })),
    ],
  );
  const firsts = new Map(rows.map(({ runId, isFirst }) => [runId, isFirst]));
  return runs.map(({ runId }) => firsts.get(runId) ?? null);
}

/**
 * A run that waits, and was expected to be small, is not: it goes to the dispatcher again as a large one, and so
 * will the next ones of its export.
 */
export async function expectLarge(sql: Sql, runId: string): Promise<void> {
  await sql.query(
    `with waiting as (
       update outbox set small = false, dispatched_at = null where run_id = $1 and small returning export_id
     )
     update batch_exports e set outgrew_at = now() from waiting where e.id = waiting.export_id`,
    [runId],
  );
}

/** Runs that may start now and wait. */
export async function countWaiting(sql: Sql): Promise<number> {
  const [row] = await sql.query<{ n: number }>(
    'select count(*)::int as n from outbox where available_at <= now()',
  );
  return row?.n ?? 0;
}
