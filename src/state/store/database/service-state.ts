import type { RunStep } from '../../../foundation/domain/run-step.ts';
import { queryOne } from './statement.ts';
import { running } from '../runs/run-moves.ts';

export interface ServiceState {
  readonly tickLagSeconds: number;
  readonly waitingLive: number;
  readonly waitingBackfill: number;
  readonly running: number;
  /** Seconds of the run that has been in this step longest, by step. */
  readonly longestSteps: Partial<Record<RunStep, number>>;
  readonly capacity: number;
  readonly unsettled: number;
  readonly oldestUnsettledSeconds: number;
  readonly workSetAside: number;
}

export const readServiceState = queryOne<ServiceState>(`
     select coalesce((select greatest(extract(epoch from now() - min(next_tick_at)), 0)
                        from batch_exports where deleted_at is null), 0)::float8 as "tickLagSeconds",
            (select count(*)::int from outbox where available_at <= now() and backfill_id is null) as "waitingLive",
            (select count(*)::int from outbox where available_at <= now() and backfill_id is not null) as "waitingBackfill",
            (select count(*)::int from runs where status = ${running} and lease_expires_at > now()) as running,
            (select coalesce(jsonb_object_agg(l.step, l.seconds), '{}') from (
               select step, extract(epoch from now() - min(step_since))::float8 as seconds from runs
                where status = ${running} and lease_expires_at > now() and step is not null group by step) l) as "longestSteps",
            (select coalesce(sum(capacity), 0)::int from workers where heartbeat_at > now() - interval '30 s') as capacity,
            (select count(*)::int from guarded_work where set_aside_at is not null) as "workSetAside",
            u.count::int as unsettled, coalesce(extract(epoch from now() - u.oldest), 0)::float8 as "oldestUnsettledSeconds"
       from (select count(*), min(c.data_interval_end) as oldest
               from receipts c join batch_exports e on e.id = c.export_id and e.deleted_at is null
              where not c.settled) u`);
