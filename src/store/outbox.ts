import type { Timestamp } from '../domain/time.ts';
import type { Sql } from './database.ts';

/** A run that waits for an attempt and may start now. */
export interface WaitingRun {
  readonly runId: string;
  readonly teamId: number;
  readonly exportId: string;
  readonly backfillId: string | null;
  readonly intervalEnd: Timestamp;
}

/** Runs of one export that are dispatched or executed at this moment. */
export interface InFlight {
  readonly teamId: number;
  readonly exportId: string;
  readonly runs: number;
}

/** Any constant: one dispatcher decides at a time, the others wait a moment. */
const dispatchLock = 7_140_551_091;

export async function lockDispatch(tx: Sql): Promise<void> {
  await tx.query('select pg_advisory_xact_lock($1)', [dispatchLock]);
}

export async function countInFlight(tx: Sql): Promise<InFlight[]> {
  return tx.query<InFlight>(
    `select team_id as "teamId", export_id as "exportId", count(*)::int as runs from (
       select team_id, export_id from outbox where dispatched_at is not null
       union all
       select team_id, export_id from runs where status = 'Running' and lease_expires_at is not null
     ) f group by 1, 2`,
  );
}

/** Runs that the queue was told of and that no worker has claimed yet. */
export async function countDispatched(tx: Sql): Promise<number> {
  const [row] = await tx.query<{ n: number }>(
    `select count(*)::int as n from outbox where dispatched_at is not null`,
  );
  return row?.n ?? 0;
}

/**
 * The waiting runs that may start now: of each team the first `perTeam`, live before backfill,
 * oldest interval first, passing over `fullExports`. One index descent a team.
 */
export async function findWaiting(
  tx: Sql,
  perTeam: number,
  fullExports: readonly string[],
): Promise<WaitingRun[]> {
  return tx.query<WaitingRun>(
    `with recursive teams as (
       (select team_id from outbox where dispatched_at is null order by team_id limit 1)
       union all
       select (select o.team_id from outbox o where o.dispatched_at is null and o.team_id > t.team_id order by o.team_id limit 1)
         from teams t where t.team_id is not null
     )
     select w.* from teams t cross join lateral (
       select run_id as "runId", team_id as "teamId", export_id as "exportId", backfill_id as "backfillId",
              data_interval_end as "intervalEnd"
         from outbox o
        where o.team_id = t.team_id and dispatched_at is null and available_at <= now() and export_id <> all ($2::uuid[])
        order by (backfill_id is not null), data_interval_end limit $1
     ) w where t.team_id is not null`,
    [perTeam, fullExports],
  );
}

export async function markDispatched(tx: Sql, runIds: readonly string[]): Promise<void> {
  await tx.query(`update outbox set dispatched_at = now() where run_id = any ($1::uuid[])`, [
    runIds,
  ]);
}

/** Takes back a dispatch that the queue did not accept. */
export async function unmarkDispatched(sql: Sql, runIds: readonly string[]): Promise<void> {
  await sql.query(`update outbox set dispatched_at = null where run_id = any ($1::uuid[])`, [
    runIds,
  ]);
}

/**
 * Runs that the queue was told of longer than `afterMs` ago and that are still unclaimed: it may
 * have lost them. Marks them as told again.
 */
export async function findUnanswered(tx: Sql, afterMs: number): Promise<string[]> {
  const rows = await tx.query<{ runId: string }>(
    `update outbox set dispatched_at = now()
      where dispatched_at < now() - $1 * interval '1 ms' returning run_id as "runId"`,
    [afterMs],
  );
  return rows.map((row) => row.runId);
}
