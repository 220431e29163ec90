import type pg from 'pg';
import type { Instant } from '../../domain/time.ts';
import { query } from './connection.ts';
import { fullId, type Live } from './pending.ts';

/**
 * The advisory lock that each of our own transactions holds, shared. Settling ignores them: they only read,
 * and may be long. The two keys spell `slce` `xprt`.
 */
const MARKER = [0x736c6365, 0x78707274] as const;

/** An expression that takes it. */
export const markOwnTransaction = `pg_catalog.pg_advisory_xact_lock_shared(${MARKER.join(', ')})`;

const CLOCK = `
  SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS "nowMs",
         pg_snapshot_xmax(pg_current_snapshot())::text AS "nextId"`;

const OWN_DATABASE = '(SELECT oid FROM pg_database WHERE datname = current_database())';

const isOwnExport = (pid: string) => `EXISTS (
  SELECT FROM pg_locks AS marker
   WHERE marker.locktype = 'advisory' AND marker.granted AND marker.pid = ${pid}
     AND (marker.classid, marker.objid, marker.objsubid) = (${MARKER[0]}, ${MARKER[1]}, 2))`;

/**
 * Transactions that may still write rows into this database. Every transaction holds a lock on its virtual
 * id from its start, even before it writes. `pg_locks` shows neither database nor kind of process;
 * `pg_stat_activity` shows both to every role. Excluded: other databases, and processes without a user
 * (autovacuum), which write no rows. A process that is not in the view yet counts.
 */
const VIRTUAL = `
  WITH held AS MATERIALIZED (
    SELECT locktype, virtualtransaction, pid, classid, objid, objsubid
      FROM pg_locks
     WHERE granted AND locktype IN ('virtualxid', 'advisory')
  )
  SELECT held.virtualtransaction AS id, activity.backend_xid::text AS "transactionId"
    FROM held LEFT JOIN pg_stat_activity AS activity USING (pid)
   WHERE held.locktype = 'virtualxid'
     AND held.pid <> pg_backend_pid()
     AND (activity.pid IS NULL
          OR (activity.usesysid IS NOT NULL AND coalesce(activity.datid, 0) IN (0, ${OWN_DATABASE})))
     AND NOT EXISTS (
       SELECT FROM held AS marker
        WHERE marker.locktype = 'advisory' AND marker.pid = held.pid
          AND (marker.classid, marker.objid, marker.objsubid) = (${MARKER[0]}, ${MARKER[1]}, 2))`;

/**
 * Sessions whose next transaction may have a `now()` before `end`, although no virtual id that was alive at
 * the end shows it. `now()` is when the client's message came, and one simple-query message can have
 * several transactions. So these count: a transaction from before the end; a message from before the end
 * that is still executing; and a session that is idle but does not wait for its client, since it may have
 * taken a message's time without showing it yet. VACUUM is always alone in its message and writes no rows;
 * a walsender is active as long as it streams.
 *
 * `hidden` is a session whose times are not visible: to this role, or to all (track_activities off).
 */
const sessions = (end: Instant) => `
  WITH bound AS (SELECT to_timestamp(${end / 1_000}::float8) AS at)
  SELECT s.state IS DISTINCT FROM 'idle in transaction' AS "isAtWork", s.pid, (extract(epoch FROM s.backend_start) * 1000000)::int8::text AS "startedAt",
         s.query = '<insufficient privilege>' OR coalesce(s.state = 'disabled', false) AS hidden
    FROM pg_stat_activity s, bound
   WHERE s.pid <> pg_backend_pid() AND s.usesysid IS NOT NULL
     AND coalesce(s.datid, 0) IN (0, ${OWN_DATABASE})
     AND (s.query = '<insufficient privilege>'
          OR s.state = 'disabled'
          OR s.xact_start < bound.at
          OR s.state = 'active' AND s.query_start < bound.at
             AND s.backend_type <> 'walsender' AND s.query !~* '^\\s*vacuum\\M'
          OR s.state = 'idle' AND s.backend_type = 'client backend'
             AND s.wait_event_type IS DISTINCT FROM 'Client')
     AND NOT ${isOwnExport('s.pid')}`;

const PREPARED = `
  SELECT transaction::text AS id, extract(epoch FROM prepared)::float8 * 1000 AS "preparedAtMs"
    FROM pg_prepared_xacts WHERE database = current_database()`;

/** Reads what is alive in this database and may still write rows with a `now()` before `end`. */
export async function readLive(
  client: pg.Client,
  end: Instant,
  signal: AbortSignal,
): Promise<Live> {
  const [clock] = await query<{ nowMs: number; nextId: string }>(client, CLOCK, signal);
  const nextId = BigInt(clock?.nextId ?? 0);
  const virtual = await query<{ id: string; transactionId: string | null }>(
    client,
    VIRTUAL,
    signal,
  );
  const seen = await query<{
    pid: number;
    startedAt: string | null;
    hidden: boolean;
    isAtWork: boolean;
  }>(client, sessions(end), signal);
  const prepared = await query<{ id: string; preparedAtMs: number }>(client, PREPARED, signal);
  // Ids may have been assigned since the clock was read.
  const horizon = nextId + 0x4000_0000n;
  const full = (id: string) => fullId(id, horizon);
  return {
    nowMs: clock?.nowMs ?? 0,
    nextId,
    virtual: new Map(
      virtual.map(({ id, transactionId }) => [
        id,
        transactionId === null ? null : full(transactionId),
      ]),
    ),
    sessions: new Map(
      seen
        .filter(({ hidden }) => !hidden)
        .map(({ pid, startedAt, isAtWork }) => [`session:${pid}:${startedAt}`, { isAtWork }]),
    ),
    hasUnseen: seen.some(({ hidden }) => hidden),
    prepared: new Map(prepared.map(({ id, preparedAtMs }) => [full(id), { preparedAtMs }])),
  };
}

/** The server's own clock, and whether it is a standby. */
export async function readServer(
  client: pg.Client,
  signal: AbortSignal,
): Promise<{ readonly isStandby: boolean; readonly nowMs: number }> {
  const [row] = await query<{ isStandby: boolean; nowMs: number }>(
    client,
    `SELECT pg_is_in_recovery() AS "isStandby",
            extract(epoch FROM clock_timestamp())::float8 * 1000 AS "nowMs"`,
    signal,
  );
  return { isStandby: row?.isStandby ?? true, nowMs: row?.nowMs ?? 0 };
}
