import type { Sql } from '../database/database.ts';
import { isTime } from '../database/times.ts';

/**
 * Takes a run that is due out of the dispatcher's sight for a while. It keeps its place in the outbox. May be
 * repeated if the answer was lost.
 *
 * @param parkedBy the worker that watches its source; no other one may wake it
 * @param forMs when it becomes available by itself, unless this is repeated
 * @param blockers what it waits for, in words for its owner
 * @returns whether it was parked for the first time since its last attempt; null if it is not due: it has
 *   ended, is held, or another worker has parked it
 */
export async function parkRun(
  sql: Sql,
  runId: string,
  parkedBy: string,
  forMs: number,
  blockers: readonly string[],
): Promise<{ readonly isFirst: boolean } | null> {
  const [row] = await sql.query<{ isFirst: boolean }>(
    `update outbox set available_at = now() + $3 * interval '1 ms', ready = false, dispatched_at = null, times_enqueued = 0,
            parked_by = $2, parked_since = coalesce(parked_since, now()), settlement = $4, settled_at = null
      where run_id = $1 and (ready or ${isTime('available_at')} or parked_by = $2)
      returning parked_since = now() as "isFirst"`,
    [runId, parkedBy, forMs, JSON.stringify({ blockers })],
  );
  return row ?? null;
}

/** Parks runs for longer. @returns those that this worker still has parked */
export async function keepParked(
  sql: Sql,
  runs: readonly { readonly runId: string; readonly blockers: readonly string[] }[],
  parkedBy: string,
  forMs: number,
): Promise<ReadonlySet<string>> {
  const rows = await sql.query<{ runId: string }>(
    `update outbox set available_at = now() + $3 * interval '1 ms', settlement = w.settlement
       from unnest($1::uuid[], $4::jsonb[]) as w (run_id, settlement)
      where outbox.run_id = w.run_id and parked_by = $2 and not ready returning outbox.run_id as "runId"`,
    [
      runs.map(({ runId }) => runId),
      parkedBy,
      forMs,
      runs.map(({ blockers }) => JSON.stringify({ blockers })),
    ],
  );
  return new Set(rows.map(({ runId }) => runId));
}

/**
 * Makes parked runs available now.
 *
 * @param settlement plain JSON, which `findRunNeeds` gives for a minute; null for none
 */
export async function wakeRuns(
  sql: Sql,
  runIds: readonly string[],
  parkedBy: string,
  settlement: unknown,
): Promise<void> {
  await sql.query(
    `update outbox set available_at = now(), ready = true, parked_by = null, settlement = $3, settled_at = now()
      where run_id = any ($1::uuid[]) and parked_by = $2`,
    [runIds, parkedBy, settlement === null ? null : JSON.stringify(settlement)],
  );
}
