import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import type { Instant } from '../../domain/time.ts';
import type { Settlement } from '../source.ts';
import { query } from './connection.ts';

/**
 * The advisory lock that each of our own transactions holds, shared, so that settling tells them
 * from those of writers: they only read, and may last long. The two keys spell `slce` `xprt`.
 */
const MARKER = [0x736c6365, 0x78707274] as const;

export const markOwnTransaction = `SELECT pg_advisory_xact_lock_shared(${MARKER.join(', ')})`;

/**
 * Transactions that may yet write rows into this database. Every transaction holds a lock on its
 * virtual id from its start, also before it has written anything. `pg_locks` names neither database
 * nor kind of process; `pg_stat_activity` shows both to any role. Left out: other databases, and
 * processes without a user (autovacuum), which write no rows. A process that is not in the view yet counts.
 */
const LIVE_TRANSACTIONS = `
  WITH held AS MATERIALIZED (
    SELECT locktype, virtualtransaction, pid, classid, objid, objsubid
      FROM pg_locks
     WHERE granted AND locktype IN ('virtualxid', 'advisory')
  )
  SELECT held.virtualtransaction AS id
    FROM held LEFT JOIN pg_stat_activity AS activity USING (pid)
   WHERE held.locktype = 'virtualxid'
     AND held.pid <> pg_backend_pid()
     AND (activity.pid IS NULL
          OR (activity.usesysid IS NOT NULL
              AND coalesce(activity.datid, 0) IN
                  (0, (SELECT oid FROM pg_database WHERE datname = current_database()))))
     AND NOT EXISTS (
       SELECT FROM held AS marker
        WHERE marker.locktype = 'advisory' AND marker.pid = held.pid
          AND (marker.classid, marker.objid, marker.objsubid) = (${MARKER[0]}, ${MARKER[1]}, 2))`;

const PREPARED_TRANSACTIONS =
  'SELECT transaction::text AS id FROM pg_prepared_xacts WHERE database = current_database()';

/** An interval that ended so long ago has no transaction any more that is only about to begin. */
const longAgoMs = 60_000;

/** The first pause between two looks; it doubles up to `pollMs`. */
const firstPollMs = 5;

const COUNT_PREPARED =
  'SELECT count(*)::int AS n FROM pg_prepared_xacts WHERE database = current_database()';

/** Stands for the transactions of a primary, which its standby does not show. */
const standbyMark = 'standby';

export interface SettleTimes {
  readonly timeoutMs: number;
  readonly pollMs: number;
}

/**
 * Waits until every transaction that was alive when it was called has ended, as CREATE INDEX
 * CONCURRENTLY does. Rows that carry `now()` of an earlier moment are visible to every snapshot taken
 * afterwards.
 * @returns not settled where the bound was hit, or where the server is a standby: it does not see
 *   the transactions of its primary, so nothing is proven.
 */
export async function settleTransactions(
  client: pg.Client,
  end: Instant,
  times: SettleTimes,
  signal: AbortSignal,
): Promise<Settlement> {
  const deadline = performance.now() + times.timeoutMs;
  const [server] = await query<{ standby: boolean; nowMs: number }>(
    client,
    'SELECT pg_is_in_recovery() AS standby, extract(epoch FROM clock_timestamp())::float8 * 1000 AS "nowMs"',
    signal,
  );
  if (server?.standby !== false) return { settled: false, pending: [standbyMark] };
  // `now()` is taken a moment before the virtual id is locked. One poll's time covers a transaction
  // that stood between the two when the interval ended; long after the end there is none.
  if (server.nowMs - end < longAgoMs) await delay(times.pollMs, undefined, { signal });
  const ended = (sql: string) => waitForEnd(client, sql, deadline, times.pollMs, signal);
  // In this order: a transaction becomes a prepared one before its virtual id goes.
  const live = await ended(LIVE_TRANSACTIONS);
  const prepared = live.length > 0 ? [] : await ended(PREPARED_TRANSACTIONS);
  const pending = [...live, ...prepared];
  return { settled: pending.length === 0, pending };
}

/** Whether none of these transactions is alive any more, nor prepared by one of them. */
export async function haveEnded(
  client: pg.Client,
  pending: readonly string[],
  signal: AbortSignal,
): Promise<boolean> {
  if (pending.includes(standbyMark)) return false;
  const live = new Set<string>();
  for (const sql of [LIVE_TRANSACTIONS, PREPARED_TRANSACTIONS]) {
    for (const { id } of await query<{ id: string }>(client, sql, signal)) live.add(id);
  }
  // One that was alive may have become a prepared one under another id: none may be left then.
  const [prepared] = await query<{ n: number }>(client, COUNT_PREPARED, signal);
  return prepared?.n === 0 && !pending.some((id) => live.has(id));
}

/**
 * Waits until none of the ids that `sql` lists at first is listed any more.
 *
 * @returns those that are still listed at the deadline
 */
async function waitForEnd(
  client: pg.Client,
  sql: string,
  deadline: number,
  pollMs: number,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const list = async () => (await query<{ id: string }>(client, sql, signal)).map(({ id }) => id);
  let pending = await list();
  let pauseMs = firstPollMs;
  while (pending.length > 0) {
    const leftMs = deadline - performance.now();
    if (leftMs <= 0) return pending;
    await delay(Math.min(pauseMs, pollMs, leftMs), undefined, { signal });
    pauseMs *= 2;
    const live = new Set(await list());
    pending = pending.filter((id) => live.has(id));
  }
  return [];
}
