import type { Turn } from '../../../foundation/domain/causes.ts';
import type { Schedule } from '../../../foundation/domain/schedule.ts';
import {
  type DataInterval,
  type Instant,
  type Timestamp,
  toTimestamp,
} from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { command, queryRows } from '../database/statement.ts';
import { live } from '../runs/run-moves.ts';
import { boundLists, instantOf, intervalOf, isSameInterval } from '../database/times.ts';

export interface CheckedExport {
  readonly exportId: string;
  readonly teamId: number;
  readonly organizationId: string;
  readonly name: string;
  readonly schedule: Schedule;
  readonly deadlineMinutes: number | null;
  readonly deadlineAt: string | null;
  readonly warnMinutes: number | null;
  readonly judgedTo: Timestamp;
}

/** Exports whose check is due, longest due first. Others skip them until the transaction ends. */
export const lockDueChecks = queryRows<CheckedExport, [limit: number]>(`
     select e.id as "exportId", e.team_id as "teamId", p.organization_id as "organizationId", e.name, e.schedule,
            e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", d.judged_to as "judgedTo"
       from export_checks d join batch_exports e on e.id = d.export_id join projects p on p.id = e.team_id
      where d.next_check_at <= clock_timestamp() and e.deleted_at is null
      order by d.next_check_at limit $1 for update of d skip locked`);

/** SQL: whether the tick `t` made data owed: it ran, or it came in a pause that only Sluice made. */
const isOwed = `(t.fate = 'ran' or t.fate = 'paused' and exists (select from batch_exports b where b.id = t.export_id and b.automatic_pauses @> t.tick_at))
  and not exists (select from accepted_intervals x where ${isSameInterval('x', 't')})`;

/** SQL: whether the run `r` has read from its source for long. The function `reads_long` has the same rule. */
const readsLong = `r.status = 'Running' and r.step in ('first_row', 'read') and r.lease_expires_at > now()
  and r.step_since < now() - interval '1 minute'`;

/** SQL: the newest failure of the interval of the tick `t`, and whether its run waits for transactions of the source. */
const whyOf = `left join lateral (select coalesce(r.error_code, 'source.slow') as code from runs r where ${isSameInterval('r', 't')}
       and (r.error_code is not null or ${readsLong}) order by r.generation desc limit 1) as failed on c.export_id is null
  left join lateral (select o.waits_for is not null as waits from runs r join outbox o on o.run_id = r.id
      where ${isSameInterval('r', 't')} and r.status in ${live} limit 1) as waiting on c.export_id is null`;

export interface OwedInterval {
  readonly exportId: string;
  readonly tickAt: Instant;
  readonly interval: DataInterval;
  readonly deliveredAt: Instant | null;
  readonly code: string | null;
  /** True if it waits for open transactions of its source. */
  readonly waitsForSource: boolean;
}

const owedColumns = `t.export_id as "exportId", ${instantOf('t.tick_at')} as "tickAt", ${intervalOf('t')} as interval,
  ${instantOf('c.delivered_at')} as "deliveredAt", failed.code, coalesce(waiting.waits, false) as "waitsForSource"`;

/** Intervals that are owed and not judged, oldest first, up to `most` of each export. */
export const listUnjudged = queryRows<
  OwedInterval,
  [checked: readonly CheckedExport[], most: number]
>(
  `select ${owedColumns} from unnest($1::uuid[], $2::timestamptz[]) as x (id, judged_to)
       cross join lateral (select * from ticks t where t.export_id = x.id and t.tick_at > x.judged_to and ${isOwed}
                            order by t.tick_at limit $3) t
       left join receipts c on ${isSameInterval('c', 't')} ${whyOf}
      order by t.export_id, t.tick_at`,
  (checked, most) => [
    checked.map(({ exportId }) => exportId),
    checked.map(({ judgedTo }) => judgedTo),
    most,
  ],
);

/** A judgement of an interval that is late, or at risk. */
export interface LateInterval
  extends Pick<OwedInterval, 'exportId' | 'interval' | 'deliveredAt' | 'code'> {
  readonly dueBy: Instant;
  readonly isMissed: boolean;
  readonly turn: Turn;
}

/** Notes intervals that are late or at risk. @returns those that were not so before, by their place in the list */
export async function noteLate(
  tx: Sql,
  late: readonly LateInterval[],
): Promise<{ readonly index: number; readonly isNew: boolean; readonly wasMissed: boolean }[]> {
  if (late.length === 0) return [];
  return tx.query(
    `with given as (
       select * from unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[], $5::boolean[], $6::timestamptz[], $7::text[], $8::text[])
         with ordinality as g (export_id, data_interval_start, data_interval_end, due_by, is_missed, delivered_at, code, turn, place)
     ), known as (
       select g.place, l.export_id is null as is_new, l.missed_at is not null as was_missed
         from given g left join late_intervals l on ${isSameInterval('l', 'g')}
     ), noted as (
       insert into late_intervals as l (export_id, data_interval_start, data_interval_end, due_by, missed_at, delivered_at, code, turn)
       select export_id, data_interval_start, data_interval_end, due_by, case when is_missed then due_by end, delivered_at, code, turn from given
       on conflict (export_id, data_interval_start, data_interval_end) do update
          set due_by = excluded.due_by, missed_at = coalesce(l.missed_at, excluded.missed_at), delivered_at = excluded.delivered_at,
              code = excluded.code, turn = excluded.turn
     )
     select place::int - 1 as index, is_new as "isNew", was_missed as "wasMissed" from known order by place`,
    [
      late.map(({ exportId }) => exportId),
      ...boundLists(late.map(({ interval }) => interval)),
      late.map(({ dueBy }) => toTimestamp(dueBy)),
      late.map(({ isMissed }) => isMissed),
      late.map(({ deliveredAt }) => (deliveredAt === null ? null : toTimestamp(deliveredAt))),
      late.map(({ code }) => code),
      late.map(({ turn }) => turn),
    ],
  );
}

export interface Checked {
  readonly exportId: string;
  /** Ticks up to here are judged; null: as before. */
  readonly judgedTo: Instant | null;
  readonly nextCheckAt: Instant;
}

export const storeChecks = command(
  `update export_checks d set judged_to = coalesce(x.judged_to, d.judged_to), next_check_at = x.next_check_at
       from unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[]) as x (id, judged_to, next_check_at) where d.export_id = x.id`,
  (checks: readonly Checked[]) => [
    checks.map(({ exportId }) => exportId),
    checks.map(({ judgedTo }) => (judgedTo === null ? null : toTimestamp(judgedTo))),
    checks.map(({ nextCheckAt }) => toTimestamp(nextCheckAt)),
  ],
);

/** An interval that missed its deadline and has now arrived. */
export interface DeliveredLate
  extends Pick<CheckedExport, 'exportId' | 'teamId' | 'organizationId' | 'name'> {
  readonly dueBy: Timestamp;
  readonly code: string | null;
  readonly turn: Turn;
}

/** Notes what has arrived. Intervals that were only at risk arrived in time: they are forgotten. */
export const noteArrivals = queryRows<DeliveredLate>(`with arrived as (
       update late_intervals l set delivered_at = c.delivered_at, missed_at = case when c.delivered_at > l.due_by then coalesce(l.missed_at, l.due_by) end
         from receipts c where l.delivered_at is null and ${isSameInterval('c', 'l')} returning l.*
     )
     select a.export_id as "exportId", e.team_id as "teamId", p.organization_id as "organizationId", e.name, a.due_by as "dueBy", a.code, a.turn
       from arrived a join batch_exports e on e.id = a.export_id join projects p on p.id = e.team_id
      where a.missed_at is not null and e.deleted_at is null`);
