import type { Instant } from '../domain/time.ts';
import type { Sql } from './database.ts';

/** A run that waits for an attempt, or has one. */
export interface QueuedRun {
  readonly runId: string;
  readonly tenantId: number;
  readonly exportId: string;
  readonly backfillId: string | null;
  readonly intervalStart: Instant;
}

const queuedRunColumns = `team_id as "tenantId", export_id as "exportId", backfill_id as "backfillId",
  floor(extract(epoch from data_interval_start) * 1000)::bigint as "intervalStart"`;

/** Any constant: one dispatcher decides at a time, the others wait a moment. */
const dispatchLock = 7_140_551_091;

export async function lockDispatch(tx: Sql): Promise<void> {
  await tx.query('select pg_advisory_xact_lock($1)', [dispatchLock]);
}

/** Runs that are dispatched or executed at this moment. */
export async function listInFlight(tx: Sql): Promise<QueuedRun[]> {
  return tx.query<QueuedRun>(
    `select run_id as "runId", ${queuedRunColumns} from outbox where dispatched_at is not null
     union all
     select id as "runId", ${queuedRunColumns} from runs where status = 'Running' and lease_expires_at > now()`,
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
 * oldest interval first, passing over live runs of `fullExports`. One index descent a team.
 */
export async function findWaiting(
  tx: Sql,
  perTeam: number,
  fullExports: readonly string[],
): Promise<QueuedRun[]> {
  return tx.query<QueuedRun>(
    `with recursive teams as (
       (select team_id from outbox where dispatched_at is null order by team_id limit 1)
       union all
       select (select o.team_id from outbox o where o.dispatched_at is null and o.team_id > t.team_id order by o.team_id limit 1)
         from teams t where t.team_id is not null
     )
     select w.* from teams t cross join lateral (
       select run_id as "runId", ${queuedRunColumns} from outbox o
        where o.team_id = t.team_id and dispatched_at is null and available_at <= now()
          and (backfill_id is not null or export_id <> all ($2::uuid[]))
        order by (backfill_id is not null), data_interval_start limit $1
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
