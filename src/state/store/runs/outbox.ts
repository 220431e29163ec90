import type { Sql } from '../database/database.ts';
import {
  command,
  queryCount,
  queryNumber,
  queryOne,
  queryRows,
  queryValue,
  queryValues,
} from '../database/statement.ts';
import { anyNumber, isAny, plannedOnce, unflushed } from '../database/prepared.ts';
import { hasNotEnded, running } from './run-moves.ts';
import { intervalOf, isTime, longerThanAnyWait } from '../database/times.ts';
import { capacityNow, smallCapacityNow } from './workers.ts';
import type { ExportMode } from '../../../foundation/domain/export-settings.ts';
import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import type { RunPurpose } from '../../../foundation/domain/run.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import { heldUpBy } from './claims.ts';
import { pinnedChainOf } from '../transformations/chains.ts';
import { type EraFacts, eraFacts, resolveEra } from '../database/eras.ts';

/** SQL of the lane behind live runs that a run is in: its backfill, or what heals in its export. Null: it is a live run. */
export const laneOf = `coalesce(backfill_id, case when heals then export_id end)`;

/** The most that the neighbours of a run may have in their files, if it is expected to be small. */
const smallBytes = 128 * 1024;
const smallRows = 2_000;
/** All runs of an export count as large for this long, once one has read more than a small run may. */
const largeFor = `interval '1 day'`;

/** SQL: whether a run is expected to be small: by at most four receipts beside it; without one it is. A run that reads files is not. */
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
 * SQL; the only way to add runs.
 * @param rows a table with id, team_id, export_id, backfill_id, data_interval_start and purpose
 * @param availableAt SQL of the time before which no attempt begins
 * @param small SQL: whether a run is expected to be small
 */
export const enqueueRuns = (rows: string, availableAt = 'now()', small = isSmall(rows)): string =>
  `insert into outbox (run_id, team_id, export_id, backfill_id, data_interval_start, available_at, ready, small)
   select id, team_id, export_id, backfill_id, data_interval_start, ${availableAt}, ${availableAt} <= now(), ${small} from ${rows}`;

/** Retries after their backoff, ticks after their jitter. If the clock went back since, they are due at once. */
export const markReady = command(`
     update outbox set ready = true, available_at = least(available_at, now()) where run_id = any (array(
       (select run_id from outbox where not ready and available_at <= now() order by available_at limit 10000)
       union all
       (select run_id from outbox where not ready and available_at > now() + ${longerThanAnyWait} limit 10000)))`);

/** SQL that is true for an entry of a run that has not ended. An entry of an ended run would never be answered. */
const ofLive = (entry: string): string =>
  `(select ${hasNotEnded('r')} from runs r where r.id = ${entry}.run_id)`;

/** All that a dispatcher chooses by, besides the tables. */
export interface DispatchRules {
  /** Live runs in flight of one export. */
  readonly perExport: number;
  /** Runs in flight of one project that use the same kind of slots. */
  readonly perProject: number;
  /** Organizations that were active lately; null: no organization must leave room to others. */
  readonly company: readonly string[] | null;
}

/** A run to enqueue, and how often it has been enqueued while it waits. */
export interface EnqueuedRun {
  readonly runId: string;
  readonly timesEnqueued: number;
  /** For the queue of small runs; no if no worker has slots for them. */
  readonly small: boolean;
}

const isCurrent = `(select turn from held) = (select turn from installation)`;
const entryColumns = `run_id, team_id, export_id, small, heals, backfill_id is not null, data_interval_start`;

/** The order of runs within a turn: live before backfill, then the oldest interval. */
const inOrder = `behind, start, team_id, run_id`;

/** Small runs of one project have a turn together, so that they share their snapshot. */
const smallPerTurn = 4;

/**
 * SQL of the limits for each kind of slots. Small runs have slots of their own. Without these they use those of large ones.
 *
 * - share: runs in flight of one organization. From four slots on it never has the last one, so a tenant whose runs never end does not keep
 *   others from starting. Null: any number.
 * - crowded: the same while the organization has company and the processors have too much to do. Each slot more would slow the others
 *   down. Fewer small runs than have a turn together would only make each of them dearer.
 * - healing: runs in flight that heal, of all organizations. A place that hangs holds no more of them.
 */
const slotLimits = `select *, least(share, greatest(per_turn, slots / 8)) as crowded, greatest(1, slots / 4) as healing from (
         select *, case when slots >= 4 then slots - 1 end as share
           from (values (false, ${capacityNow}, 1), (true, ${smallCapacityNow}, ${smallPerTurn})) v (is_small, slots, per_turn)) s`;

/**
 * Each step numbers the runs and leaves out those beyond a limit. Runs in flight come first in each order, so the numbers count them: stage 0
 * is executed, 1 is queued, 2 waits. The lock comes after the snapshot: if another dispatcher has chosen between them, this one chooses
 * nothing. Planned each time, for what is in the outbox now.
 */
const takeWaiting = `with held as materialized (select turn from installation where ${unflushed} for update
     ), slots as (${slotLimits}
     ), seen as materialized (
       select *, small and ${smallCapacityNow} > 0 as is_small from (
         select 0 as stage, id as run_id, team_id, export_id, small, heals, ${laneOf} is not null as behind, data_interval_start as start
           from runs where status = ${running} and lease_expires_at > now()
         union all
         select 1, ${entryColumns} from outbox where dispatched_at is not null and ${ofLive('outbox')}
         union all
         select 2, ${entryColumns} from outbox where ready and dispatched_at is null and ${isCurrent}
       ) r join (select id as team_id, organization_id from projects) p using (team_id)
     ), active as materialized (select distinct organization_id from seen
     ), of_export as (
       select *, row_number() over (partition by export_id, behind order by stage, start, run_id) as n from seen join slots using (is_small)
     ), of_project as (
       select *, row_number() over (partition by team_id, is_small order by stage, ${inOrder}) as nth from of_export where stage < 2 or behind or n <= $1::int
     ), of_organization as (
       select *, row_number() over w as number, (row_number() over w - 1) / per_turn as turn from of_project where stage < 2 or nth <= $2::int
       window w as (partition by organization_id, is_small order by stage, (nth - 1) / per_turn, ${inOrder})
     ), of_healing as (
       select *, count(*) filter (where heals) over (partition by is_small order by stage, turn, ${inOrder}) as healed
         from of_organization
        where stage < 2 or number <= case when $3::uuid[] is not null and (select count(*) > 1 from (select * from active union select unnest($3)) a) then crowded else coalesce(share, number) end
     ), placed as (
       select *, count(*) filter (where stage > 0) over (partition by is_small order by stage, turn, ${inOrder}) as place from of_healing where stage < 2 or not heals or healed <= healing
     ), chosen as materialized (select run_id, is_small, place from placed where stage = 2 and place <= 2 * slots
     ), free as (
       select run_id from outbox where run_id = any (array(select run_id from chosen)) and ready and dispatched_at is null for update skip locked
     ), marked as (
       update outbox set dispatched_at = clock_timestamp(), times_enqueued = times_enqueued + 1
        where run_id = any (array(select run_id from free)) returning run_id, times_enqueued
     ), noted as (update installation set turn = turn + 1, taken_at = now() where exists (select from marked))
     select coalesce((select jsonb_agg(jsonb_build_object('runId', run_id, 'timesEnqueued', times_enqueued, 'small', is_small) order by is_small, place)
                        from marked join chosen using (run_id)), '[]') as runs,
            array(select organization_id from active) as "organizationIds", ${smallCapacityNow} as "smallSlots", ${isCurrent} as "isCurrent"`;

/** The runs that a dispatcher has taken, in the order of their turns. */
export interface TakenRuns {
  readonly runs: readonly EnqueuedRun[];
  readonly organizationIds: readonly string[];
  /** Slots for small runs of all workers. */
  readonly smallSlots: number;
  /** No if another dispatcher has chosen since this one began to look: then it has taken nothing. */
  readonly isCurrent: boolean;
}

/**
 * Chooses the next runs fairly and notes that they are enqueued. Dispatchers wait for each other only while this statement is executed. An
 * entry that another transaction has locked waits for the next choice. If the database dies in the next moment, the runs may be enqueued
 * twice, as any job may.
 */
export const takeRuns = queryOne<TakenRuns, [rules: DispatchRules]>(
  takeWaiting,
  ({ perExport, perProject, company }) => [perExport, perProject, company],
);

/** Notes that runs are enqueued again. */
export const markDispatched = queryRows<EnqueuedRun, [runIds: readonly string[]]>(`
     update outbox set dispatched_at = clock_timestamp(), times_enqueued = times_enqueued + 1
      where run_id = any ($1::uuid[]) and dispatched_at is not null returning run_id as "runId", times_enqueued as "timesEnqueued", small and ${smallCapacityNow} > 0 as small`);

/** Undoes a dispatch that the queue did not accept. */
export const unmarkDispatched = command<[runIds: readonly string[]]>(
  `update outbox set dispatched_at = null where run_id = any ($1::uuid[])`,
);

/** The queue may have lost them. A time in the future means that the clock went back since. */
export const findUnanswered = queryValues<string, [afterMs: number]>(`
     select run_id as "runId" from outbox
      where (dispatched_at < clock_timestamp() - $1 * interval '1 ms'
         or dispatched_at > clock_timestamp() + interval '1 s') and ${ofLive('outbox')}`);

/** Whatever ends a run deletes its entry, but one that is left would use a slot for good. @returns how many it found */
export const removeEndedEntries = queryCount(
  `delete from outbox where dispatched_at is not null and not ${ofLive('outbox')} returning 1`,
);

/** Although a run waits, none is executed and workers have slots. @returns seconds; null if it works */
export const findStalledDispatch = queryValue<number, [afterSeconds: number]>(`
     select floor(extract(epoch from now() - d.taken_at))::float8 as seconds from installation d
      where d.taken_at < now() - $1 * interval '1 s' and ${capacityNow} > 0
        and exists (select from outbox where ready and available_at < now() - $1 * interval '1 s')
        and not exists (select from runs where status = ${running} and lease_expires_at > now())`);

/** A run that goes back to the outbox, because transactions of its source may still add rows to its interval. */
export interface WaitingRun {
  readonly runId: string;
  /** When it comes to a worker again. */
  readonly forMs: number;
  /** The names of what it waits for, which its next look needs; null if its source has named nothing yet. */
  readonly pending: readonly string[] | null;
  readonly blockers: readonly string[];
}

/** They were not claimed, so this is no attempt. @returns whether it is the first wait since the last one; null: it was not due */
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

/** It goes to the dispatcher again as a large one, and so will the next ones of its export. */
export const expectLarge = command<[runId: string]>(`with waiting as (
       update outbox set small = false, dispatched_at = null where run_id = $1 and small returning export_id
     )
     update batch_exports e set outgrew_at = now() from waiting where e.id = waiting.export_id`);

export const countWaiting = queryNumber(
  'select count(*)::int as n from outbox where available_at <= now()',
);

/** The facts about a run that a worker needs before it claims it. */
export interface RunNeeds {
  readonly organizationId: string;
  readonly teamId: number;
  readonly exportId: string;
  readonly purpose: RunPurpose;
  readonly model: string;
  readonly mode: ExportMode;
  readonly interval: DataInterval;
  /** True if an attempt was about to commit. */
  readonly beganCommit: boolean;
  /** The wait for its source that it is in; null: none. */
  readonly wait: {
    /** The names of what it waits for; null if its source has named nothing yet. */
    readonly pending: readonly string[] | null;
    readonly waitedMs: number;
  } | null;
  readonly type: string;
  /** Without secrets. */
  readonly config: DestinationConfig;
  readonly transformations: boolean;
  /** Steps of its chain whose plugin is an organization's own. */
  readonly ownSteps: number;
  /** The number that its next claim will count. */
  readonly crashes: number;
  /** True if it waits for a place for small runs, and is still expected to be small. */
  readonly small: boolean;
  /** True if it makes no attempt: its export fails, and its interval heals with the others. */
  readonly isHeldUp: boolean;
  /** True if no work is done in this database until an operator accepts its era. */
  readonly isHeld: boolean;
}

/** Reads the needs of live runs, in the order of their ids; null for a run that has ended. */
export async function findRunNeeds(
  sql: Sql,
  runIds: readonly string[],
): Promise<readonly (RunNeeds | null)[]> {
  const rows = await sql.query<Omit<RunNeeds, 'isHeld'> & EraFacts & { readonly runId: string }>(
    plannedOnce(`select ${eraFacts}, r.id as "runId", p.organization_id as "organizationId", r.team_id as "teamId", r.export_id as "exportId", r.purpose, e.model, e.mode, ${intervalOf('r')} as interval,
            r.commit_intent is not null as "beganCommit", case when o.waits_for is not null then jsonb_build_object('pending', o.waits_for -> 'pending',
              'waitedMs', greatest(extract(epoch from now() - o.waits_since) * 1000, 0)) end as wait,
            e.destination_type as type, e.destination_config as config, e.transformations, coalesce(o.small and ${isSmall('r')}, false) as small,
            (select count(*)::int from jsonb_array_elements(${pinnedChainOf('r')}) pinned where pinned ? 'source') as "ownSteps",
            ${heldUpBy('r')} is not null as "isHeldUp",
            r.crashes + (r.lease_holder is not null)::int as crashes
       from (select * from unnest($1::uuid[]) as a (id) ${anyNumber}) asked join runs r on r.id = asked.id join batch_exports e on e.id = r.export_id join projects p on p.id = r.team_id
            -- Limited, so that it is looked up: a plan that was made while the outbox was empty would read all of it.
            left join lateral (select * from outbox where run_id = r.id limit 1) o on true
      where ${hasNotEnded('r')}`),
    [runIds],
  );
  const needsByRun = new Map<string, RunNeeds>();
  for (const { newestEra, place, runId, ...needs } of rows) {
    const { held: isHeld } = await resolveEra(sql, { newestEra, place });
    needsByRun.set(runId, { ...needs, isHeld });
  }
  return runIds.map((runId) => needsByRun.get(runId) ?? null);
}
