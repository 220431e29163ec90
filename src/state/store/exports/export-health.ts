import { disabledCodes } from '../../../foundation/domain/batch-export.ts';
import type { Turn } from '../../../foundation/domain/causes.ts';
import type { Sql } from '../database/database.ts';
import { isHealing, mayRun } from '../healing/healing.ts';
import { isSameInterval } from '../database/times.ts';

/** Exports in a state that somebody must look at, by the code of their newest failure. */
export interface TroubledExports {
  /** The code of the newest failure since the last success; null: there is none. */
  readonly code: string | null;
  readonly failing: number;
  readonly exhausted: number;
  readonly late: number;
}

/** Exports that a failure left behind, by its code; null: no longer known. The export may work again. */
export interface LeftBehind {
  readonly code: string | null;
  readonly count: number;
}

/** The things that somebody must look at, and those that wait to be notified. */
export interface ExportHealth {
  readonly troubled: readonly TroubledExports[];
  readonly pausedBySluice: readonly LeftBehind[];
  /** Intervals without data whose runs have ended without success. */
  readonly missingIntervals: readonly LeftBehind[];
  readonly pausedByPerson: number;
  /** Their organization or project is disabled. */
  readonly pausedByOperator: number;
  /** Age of the oldest data of all exports that should run. */
  readonly worstLagSeconds: number;
  /** Since the longest late export became late. */
  readonly longestLateSeconds: number;
  readonly waitingNotifications: number;
  /** Since the notification was due that is due for longest and that no worker attempts. */
  readonly oldestDueNotificationSeconds: number;
  /** Intervals that have missed their deadline and have not arrived, by whose turn it is. */
  readonly overdue: Readonly<Record<Turn, number>>;
  /** Intervals that are not delivered, and due within `warn_minutes`. */
  readonly atRisk: number;
  readonly healing: number;
  readonly failingTargets: number;
}

const byOperator = `coalesce(paused_code = any ($1::text[]), false)`;

/** An export that a person or an operator has paused needs no one: its health is `paused`, whatever else is wrong with it. */
const isWanted = `e.deleted_at is null and not (e.paused and (e.paused_reason is null or ${byOperator}))`;

const troubled = `select coalesce(e.failing_code, case when e.late_since is not null and reads_long(e.id) then 'source.slow' end) as code, count(*) filter (where e.failing_since is not null)::int as failing,
         count(*) filter (where e.exhausted_since is not null)::int as exhausted,
         count(*) filter (where e.late_since is not null)::int as late
    from batch_exports e
   where ${isWanted} and (e.failing_since is not null or e.exhausted_since is not null or e.late_since is not null)
   group by 1`;

/** The code of the newest run among those of `condition` that failed. */
const codeOfFailed = (condition: string, order: string) => `(select r.error_code from runs r
    where ${condition} and r.status in ('Failed', 'FailedRetryable') order by ${order} limit 1)`;

const paused = `select coalesce(e.failing_code, ${codeOfFailed('r.export_id = e.id', 'r.created_at desc, r.id desc')}) as code, count(*)::int as count
    from batch_exports e where ${isWanted} and e.paused
   group by 1`;

const ofInterval = isSameInterval('r', 'h');

/** An interval that a pause of Sluice missed has no run: what paused the export keeps it. */
const missing = `select coalesce(${codeOfFailed(ofInterval, 'r.id desc')}, e.failing_code) as code, count(*)::int as count
    from missing_intervals h join batch_exports e on e.id = h.export_id and ${isWanted}
   group by 1`;

export async function readExportHealth(sql: Sql): Promise<ExportHealth> {
  const [row] = await sql.query<ExportHealth>(
    `select (select coalesce(jsonb_agg(t), '[]') from (${troubled}) t) as troubled,
            (select coalesce(jsonb_agg(t), '[]') from (${paused}) t) as "pausedBySluice",
            (select coalesce(jsonb_agg(t), '[]') from (${missing}) t) as "missingIntervals",
            e.*, n.*,
            (select jsonb_build_object('ours', count(*) filter (where turn = 'ours'), 'source', count(*) filter (where turn = 'source'),
                      'customer', count(*) filter (where turn = 'customer')) from late_intervals l join batch_exports b on b.id = l.export_id and b.deleted_at is null
              where l.delivered_at is null and l.missed_at is not null) as overdue,
            (select count(*)::int from late_intervals l join batch_exports b on b.id = l.export_id and b.deleted_at is null
              where l.delivered_at is null and l.missed_at is null) as "atRisk",
            (select count(*)::int from holes h join batch_exports e on e.id = h.export_id where h.heals_since is not null and ${mayRun} and ${isHealing}) as healing,
            (select count(*)::int from notification_targets where enabled and failing_since is not null) as "failingTargets"
       from (select count(*) filter (where paused and paused_reason is null)::int as "pausedByPerson",
                    count(*) filter (where paused and ${byOperator})::int as "pausedByOperator",
                    coalesce(extract(epoch from max(least(now(), end_at) - coalesce(high_water_mark, greatest(created_at, start_at)))
                      filter (where not paused)), 0)::float8 as "worstLagSeconds",
                    coalesce(extract(epoch from now() - min(late_since)), 0)::float8 as "longestLateSeconds"
               from batch_exports where deleted_at is null) e,
            (select count(*)::int as "waitingNotifications",
                    coalesce(extract(epoch from max(now() - d.next_attempt_at) filter (
                      where d.next_attempt_at <= now() and (d.leased_until is null or d.leased_until <= now())
                        and not exists (select from notification_deliveries b where b.target_id = d.target_id
                              and b.export_id = d.export_id and b.status = 'waiting' and b.seq < d.seq))), 0)::float8 as "oldestDueNotificationSeconds"
               from notification_deliveries d where d.status = 'waiting') n`,
    [disabledCodes],
  );
  if (!row) throw new Error('no row');
  return { ...row, worstLagSeconds: Math.max(0, row.worstLagSeconds) };
}
