import type { ExportMode } from '../../../foundation/domain/export-settings.ts';
import type { Schedule } from '../../../foundation/domain/schedule.ts';
import type { DataInterval, Instant } from '../../../foundation/domain/time.ts';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import { command, queryNumber, queryRows } from '../database/statement.ts';
import { enqueueRuns } from '../runs/outbox.ts';
import { prepared } from '../database/prepared.ts';
import { live } from '../runs/run-moves.ts';
import { boundLists, instantOf } from '../database/times.ts';

export type TickFate = 'ran' | 'paused' | 'outside_window' | 'superseded';

/** The part of an export that decides its ticks. */
export interface ScheduleRow {
  readonly exportId: string;
  readonly teamId: number;
  readonly mode: ExportMode;
  readonly schedule: Schedule;
}

export interface DecidedTick {
  readonly exportId: string;
  readonly teamId: number;
  readonly tickAt: Instant;
  readonly interval: DataInterval;
  readonly fate: TickFate;
  readonly availableAt: Instant;
}

const scheduleColumns = `id as "exportId", team_id as "teamId", mode, schedule`;

/** Postgres' clock, the only one of the schedule, in whole milliseconds since the epoch. */
export const readNow = queryNumber(prepared(`select ${instantOf('clock_timestamp()')} as now`));

/** Locks up to `limit` exports whose tick is due, longest due first; skips locked ones. */
export const lockDueSchedules = queryRows<ScheduleRow, [now: Instant, limit: number]>(
  `select ${scheduleColumns} from batch_exports
      where next_tick_at <= $1 and deleted_at is null
      order by next_tick_at limit $2 for no key update skip locked`,
  (now, limit) => [toTimestamp(now), limit],
);

/** With their runs and outbox rows. A tick that exists, or whose interval has a run, changes nothing. @returns runs made */
export const recordTicks = queryNumber(
  `with decided as (
       select * from unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::text[], $7::timestamptz[])
         as d (export_id, team_id, tick_at, interval_start, interval_end, fate, available_at)
     ), made as (
       insert into runs (export_id, team_id, data_interval_start, data_interval_end)
       select export_id, team_id, interval_start, interval_end from decided where fate = 'ran'
       on conflict do nothing
       returning id, export_id, team_id, backfill_id, data_interval_start, data_interval_end, purpose
     ), due as (
       select m.*, d.available_at from made m join decided d
           on d.export_id = m.export_id and d.interval_start = m.data_interval_start and d.interval_end = m.data_interval_end
     ), enqueued as (
       ${enqueueRuns('due', 'available_at')}
     ), recorded as (
       insert into ticks (export_id, tick_at, data_interval_start, data_interval_end, fate, run_id)
       select d.export_id, d.tick_at, d.interval_start, d.interval_end, d.fate,
              -- A backfill may have begun the interval in the moment before its tick was decided.
              coalesce(m.id, (select r.id from runs r
                               where d.fate = 'ran' and r.export_id = d.export_id and r.data_interval_start = d.interval_start
                                 and r.data_interval_end = d.interval_end and r.status in ${live}))
         from decided d left join made m
           on m.export_id = d.export_id and m.data_interval_start = d.interval_start and m.data_interval_end = d.interval_end
       on conflict do nothing
     )
     select count(*)::int as runs from made`,
  (ticks: readonly DecidedTick[]) => [
    ticks.map((tick) => tick.exportId),
    ticks.map((tick) => tick.teamId),
    ticks.map((tick) => toTimestamp(tick.tickAt)),
    ...boundLists(ticks.map((tick) => tick.interval)),
    ticks.map((tick) => tick.fate),
    ticks.map((tick) => toTimestamp(tick.availableAt)),
  ],
);

/** If its schedule cannot be read, no other export waits for it. Once it is fixed, no tick is lost. */
export const putOffSchedule = command<[exportId: string, seconds: number]>(
  `update batch_exports set next_tick_at = now() + $2 * interval '1 s' where id = $1`,
);

/** Stores schedules as the plan left them. */
export const storeSchedules = command(
  `update batch_exports e set schedule = s.schedule, next_tick_at = s.next_tick_at
       from unnest($1::uuid[], $2::jsonb[], $3::timestamptz[]) as s (id, schedule, next_tick_at)
      where e.id = s.id`,
  (rows: readonly Pick<ScheduleRow, 'exportId' | 'schedule'>[]) => [
    rows.map((row) => row.exportId),
    rows.map((row) => JSON.stringify(row.schedule)),
    rows.map((row) => toTimestamp(row.schedule.nextTickAt)),
  ],
);
