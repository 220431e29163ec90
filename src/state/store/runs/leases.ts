import type { StepNow } from '../../../foundation/domain/run-step.ts';
import type { Sql } from '../database/database.ts';
import { queryCount, querySet, queryValue } from '../database/statement.ts';
import { isRunning, type Lease, running } from './run-moves.ts';
import { enqueueRuns, laneOf } from './outbox.ts';
import { prepared } from '../database/prepared.ts';
import { longerThanAnyWait } from '../database/times.ts';

/** A lease, and what its attempt is doing. */
export interface HeldLease extends Lease {
  /** Null or missing: it is not known. */
  readonly step?: StepNow | null;
}

/** @returns the runs still held; the others were cancelled or taken over */
export const renewLeases = querySet<string, [leases: readonly HeldLease[], leaseMs: number]>(
  prepared(`update runs r set lease_expires_at = now() + $3 * interval '1 ms', step = coalesce(held.step, r.step),
              step_since = coalesce(now() - held.seconds * interval '1 s', r.step_since)
       from unnest($1::uuid[], $2::bigint[], $4::text[], $5::float8[]) as held (id, fence, step, seconds)
      where r.id = held.id and r.fence = held.fence and ${isRunning('r')}
      returning r.id`),
  (leases, leaseMs) => [
    leases.map((lease) => lease.runId),
    leases.map((lease) => lease.fence),
    leaseMs,
    leases.map(({ step }) => step?.name ?? null),
    leases.map(({ step }) => step?.seconds ?? null),
  ],
);

/** Each attempt counts once. @returns the crashes since the run last made progress; null if the lease is lost */
export const countDeathAlone = queryValue<number, [lease: Lease]>(
  `update runs set deaths_alone = deaths_alone + (died_at_fence is distinct from fence)::int, died_at_fence = fence
      where id = $1 and fence = $2 and ${isRunning('runs')}
      returning deaths_alone as deaths`,
  (lease) => [lease.runId, lease.fence],
);

export async function whyLost(sql: Sql, lease: Lease): Promise<'cancelled' | 'taken_over'> {
  const [row] = await sql.query<{ status: string; fence: number }>(
    `select status, fence from runs where id = $1`,
    [lease.runId],
  );
  return row?.status === 'Cancelled' ? 'cancelled' : 'taken_over';
}

/** Before an unconditional write. Extends the lease, so that there is time for it. @returns false if the lease is lost */
export async function confirmLease(sql: Sql, lease: Lease, leaseMs: number): Promise<boolean> {
  return (await renewLeases(sql, [lease], leaseMs)).has(lease.runId);
}

/** Gives a run a generation above `floor`. @returns it, or null if the lease is lost */
export const raiseGeneration = queryValue<number, [lease: Lease, floor: number]>(
  `update runs set file_generation = greatest(file_generation, $3) + 1
      where id = $1 and fence = $2 and ${isRunning('runs')} returning file_generation as generation`,
  (lease, floor) => [lease.runId, lease.fence, floor],
);

/** A lease that ends later than any can was given by a clock that was wrong: it is over at the next call. @returns how many */
export const sweepExpiredLeases = queryCount(`with wrong as (
       update runs set lease_expires_at = now() where status = ${running} and lease_expires_at > now() + ${longerThanAnyWait}
     ), lost as (
       select id, team_id, export_id, ${laneOf} as backfill_id, data_interval_start, purpose from runs
        where status = ${running} and lease_expires_at < now() for no key update skip locked
     )
     ${enqueueRuns('lost')}
     on conflict do nothing returning run_id`);
