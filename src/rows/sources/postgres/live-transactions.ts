import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { storeMark } from '../../../foundation/domain/store-mark.ts';
import type { Instant } from '../../../foundation/domain/time.ts';
import { quoteText } from '../../query/print.ts';
import { queryServer } from './own-statement.ts';
import { fullId, type Live, type PendingName } from './pending.ts';

/**
 * Each of our own transactions holds it, shared. Settling ignores them: they only read, and may be long. The keys spell
 * `slce` `xprt`. Any session can take it, so it counts only for the role that looks, which may not write.
 */
const MARKER = [0x736c6365, 0x78707274] as const;

export const markedSql = `SELECT l.pid FROM pg_locks AS l WHERE l.locktype = 'advisory'
  AND l.classid = ${MARKER[0]} AND l.objid = ${MARKER[1]} AND l.objsubid = 2`;

export const markOwnTransaction = `pg_catalog.pg_advisory_xact_lock_shared(${MARKER.join(', ')})`;

const micros = (time: string) => `(extract(epoch FROM ${time}) * 1000000)::int8`;

/** Times are microseconds since 1970. Sessions that are idle, wait for their client and show their times are left out. */
interface Session {
  readonly pid: number;
  /** The lower half of its transaction's id; null before it writes. */
  readonly xid: string | null;
  readonly startedAt: number | null;
  /** True if it may write rows into this database: not if it has no user (autovacuum), or no database (the launcher of subscriptions). */
  readonly counts: boolean;
  /** Its times are not visible: to this role, or to all (track_activities off). */
  readonly hidden: boolean;
  readonly sameRole: boolean;
  readonly isAtWork: boolean;
  /** True if it executes what `KEEPS_UP` finds, which holds a virtual id as long as it runs and writes no rows. */
  readonly isUpkeep?: boolean;
  readonly transactionAt: number | null;
  readonly messageAt: number | null;
  /** The role that logged in, and what it calls itself. */
  readonly role?: number | null;
  readonly user?: string | null;
  readonly application?: string | null;
  /** The start of its last message, whether or not it still executes it. */
  readonly queryAt?: number | null;
  /** Idle, but it does not wait for its client: it may have taken a message's time without showing it yet. */
  readonly isStirring: boolean;
}

/** All that settling reads of a server, by one statement. */
export interface Look {
  readonly nowMs: number;
  readonly isStandby: boolean;
  /** When the server was started: virtual ids are unique from then on. */
  readonly serverStart: string;
  /** Higher than the ids of all transactions that had completed, or were prepared, before the look. */
  readonly nextId: string;
  readonly sessions: readonly Session[];
  readonly locks: readonly { readonly id: string; readonly pid: number; readonly own: boolean }[];
  readonly storePids: readonly number[];
  readonly prepared: readonly {
    readonly id: string;
    readonly preparedAtMs: number;
    readonly gid?: string;
  }[];
}

/** SQL of whether a session's query matches. The server reads it before `standard_conforming_strings` is set. */
const matches = (pattern: string): string => `s.query ~* ${quoteText(pattern)}`;

/** A walsender that streams writes no rows. One of a database also executes messages with several transactions. */
const STREAMS = `(s.backend_type = 'walsender'
  AND ${matches('^\\s*(start_replication|base_backup|create_replication_slot)\\M')})`;

/** Statements about an index with CONCURRENTLY: always alone in its message, in transactions of its own. */
const CONCURRENTLY = matches(
  '^\\s*((create\\s+(unique\\s+)?|drop\\s+)index\\s+concurrently\\M|reindex\\s+(\\([^()]*\\)\\s*)?(index|table|schema|database|system)\\s+concurrently\\M|reindex\\s*\\(([^()]*,)?\\s*concurrently\\s*[,)])',
);

/** The transaction began with the message, and its text, not cut off, is one statement: no longer transaction. */
const isAlone = (
  statements: string,
) => `s.xact_start = s.query_start AND ${matches(`^\\s*(${statements})\\M[^;]*;?\\s*$`)}
  AND octet_length(s.query) < pg_size_bytes(current_setting('track_activity_query_size')) - 8`;

/** They write no rows, and may take hours. Those about indexes and statistics fire event triggers, which may write. */
const KEEPS_UP = `(${matches('^\\s*vacuum\\M')} OR ${isAlone('analy[sz]e|cluster')}
  OR clock."isQuiet" AND (${CONCURRENTLY} OR ${isAlone('reindex|create\\s+(unique\\s+)?index|create\\s+statistics')}))`;

/** An idle session that waits for its client has no transaction, and its next message has a later time. */
const SESSIONS = `
  SELECT coalesce(json_agg(json_build_object(
           'pid', s.pid, 'xid', s.backend_xid::text, 'startedAt', ${micros('s.backend_start')},
           'counts', s.usesysid IS NOT NULL AND coalesce(s.datid = clock.database, false),
           'hidden', s.query = '<insufficient privilege>' OR coalesce(s.state = 'disabled', false),
           'sameRole', s.usesysid IS NOT DISTINCT FROM clock.role,
           'isUpkeep', upkeep.is,
           'role', s.usesysid::int8, 'user', pg_get_userbyid(s.usesysid), 'application', s.application_name, 'queryAt', ${micros('s.query_start')},
           'isAtWork', s.state IS DISTINCT FROM 'idle in transaction',
           'transactionAt', ${micros('s.xact_start')},
           'messageAt', CASE WHEN s.state = 'active' AND NOT ${STREAMS}
                              AND NOT upkeep.is THEN ${micros('s.query_start')} END,
           'isStirring', coalesce(s.state = 'idle' AND s.backend_type = 'client backend', false)
                         AND s.wait_event_type IS DISTINCT FROM 'Client')), '[]') AS list
    FROM pg_stat_get_activity(NULL) AS s
         CROSS JOIN LATERAL (SELECT coalesce(s.state = 'active' AND ${KEEPS_UP}, false) AS is) AS upkeep
   WHERE clock."nowMs" IS NOT NULL AND s.pid <> pg_backend_pid()
     AND (s.state = 'idle' AND s.backend_type = 'client backend' AND s.wait_event_type = 'Client'
          AND s.xact_start IS NULL) IS NOT TRUE`;

/** Every transaction locks its virtual id from its start. `pg_locks` shows neither database nor kind of process. */
const LOCKS = `
  SELECT coalesce(json_agg(json_build_object('id', virtualtransaction, 'pid', pid, 'own', locktype = 'advisory'))
           FILTER (WHERE locktype = 'virtualxid' OR objid = ${MARKER[1]}), '[]') AS list,
         coalesce(json_agg(pid) FILTER (WHERE locktype = 'advisory' AND objid = ${storeMark[1]}), '[]') AS "storePids"
    FROM pg_lock_status()
   WHERE json_typeof(sessions.list) = 'array' AND granted AND pid <> pg_backend_pid()
     AND (locktype = 'virtualxid' OR locktype = 'advisory'
          AND classid = ${MARKER[0]} AND objid IN (${MARKER[1]}, ${storeMark[1]}) AND objsubid = 2)`;

const PREPARED = `
  SELECT coalesce(json_agg(json_build_object(
           'id', transaction::text, 'gid', gid,
           'preparedAtMs', extract(epoch FROM prepared)::float8 * 1000)), '[]') AS list
    FROM pg_prepared_xact()
   WHERE json_typeof(locks.list) = 'array' AND dbid = clock.database`;

/**
 * Reads the functions below `pg_stat_activity`, `pg_locks` and `pg_prepared_xacts`: to plan the views took four times as long as
 * the rest of the look, and they need more rights.
 *
 * Each part needs the result of the part before it, so they are read in this order:
 *
 * - Sessions before virtual ids. The transaction id that is put to a virtual id is then that of the same
 *   transaction or of an earlier one, never of a later one.
 * - Prepared transactions last: a transaction becomes prepared before its virtual id ends.
 * - Their ids (`earlier`) also first, with the clock: none of these is what a virtual id becomes that is read later. A snapshot
 *   ends with the newest transaction that has completed, so at a quiet server it does not know them.
 */
export const lookSql = `
  SELECT clock."nowMs", clock."nextId", clock.earlier, clock."isStandby", clock."serverStart",
         sessions.list AS sessions, locks.list AS locks, locks."storePids", prepared.list AS prepared
    FROM (SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS "nowMs",
                 pg_snapshot_xmax(pg_current_snapshot())::text AS "nextId",
                 (SELECT coalesce(json_agg(transaction::text), '[]') FROM pg_prepared_xact()) AS earlier,
                 pg_is_in_recovery() AS "isStandby",
                 NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtenabled <> 'D') AS "isQuiet",
                 extract(epoch FROM pg_postmaster_start_time())::text AS "serverStart",
                 to_regrole(quote_ident(session_user))::oid AS role,
                 (SELECT oid FROM pg_database WHERE datname = current_database()) AS database
          OFFSET 0) AS clock
         CROSS JOIN LATERAL (${SESSIONS}) AS sessions
         CROSS JOIN LATERAL (${LOCKS}) AS locks
         CROSS JOIN LATERAL (${PREPARED}) AS prepared`;

/** Shortly after an interval's end, some transactions may not be visible yet. */
const longAgoMs = 60_000;

/** More ids than may have been assigned since the clock was read. */
const soonGiven = 0x4000_0000n;

export async function readLook(client: pg.Client, signal: AbortSignal): Promise<Look> {
  type Row = Look & { readonly earlier: readonly string[] };
  const [row] = await queryServer<Row & pg.QueryResultRow>(client, lookSql, signal);
  if (!row) throw new SluiceError('source.unavailable', 'the server gave no look');
  const { earlier, ...look } = row;
  const ids = earlier.map((id) => fullId(id, BigInt(look.nextId) + soonGiven) + 1n);
  const nextId = ids.reduce((newest, id) => (id > newest ? id : newest), BigInt(look.nextId));
  return { ...look, nextId: String(nextId) };
}

/**
 * Finds what may still write rows into this database with a `now()` before `end`: the transactions alive, and
 * sessions whose next transaction may have a `now()` before `end`, although no virtual id that was alive at
 * the end shows it. `now()` is when the client's message came, and one simple-query message can have
 * several transactions. So these count: a transaction from before the end; a message from before the end
 * that is still executing; and a session that stirs. A process that is not in the list yet counts too.
 *
 * Sessions to our own tables count only as such an older session: what they write, if a source shows it, has their `now()`.
 * There are always some short transactions of theirs; these are not waited for. On a busy machine one of them nearly always
 * stirs, so that does not count either, long after the end.
 *
 * @param readers processes that can write nothing in this database: `findReading`
 */
export function liveAt(look: Look, end: Instant, readers: ReadonlySet<number> = new Set()): Live {
  const nextId = BigInt(look.nextId);
  const full = (id: string) => fullId(id, nextId + soonGiven);
  const store = new Set(look.nowMs < end ? [] : look.storePids);
  const isLongAgo = look.nowMs - end >= longAgoMs;
  const sessions = new Map(look.sessions.map((session) => [session.pid, session]));
  // One that is not in the list began after it was read.
  const isOwn = ({ own: isMarked, pid }: { own: boolean; pid: number }) =>
    isMarked && (sessions.get(pid)?.sameRole ?? true);
  const own = new Set([...look.locks.filter(isOwn).map(({ pid }) => pid), ...readers]);
  const isBefore = (at: number | null) => at !== null && at < end * 1_000;
  const older = look.sessions.filter(
    ({ pid, counts, hidden, isStirring, isUpkeep, transactionAt, messageAt }) =>
      counts &&
      !isUpkeep &&
      !own.has(pid) &&
      (hidden ||
        (isStirring && !(isLongAgo && store.has(pid))) ||
        isBefore(transactionAt) ||
        isBefore(messageAt)),
  );
  const olderPids = new Set(older.map(({ pid }) => pid));
  const virtual = look.locks
    .filter((lock) => !lock.own && !own.has(lock.pid))
    .filter(({ pid }) => sessions.get(pid)?.counts ?? true)
    .filter(({ pid }) => sessions.get(pid)?.isUpkeep !== true)
    .filter(({ pid }) => !store.has(pid) || olderPids.has(pid));
  return {
    nowMs: look.nowMs,
    nextId,
    virtual: new Map(
      virtual.map(({ id, pid }) => {
        const xid = sessions.get(pid)?.xid ?? null;
        return [id, xid === null ? null : full(xid)];
      }),
    ),
    sessions: new Map(
      older
        .filter(({ hidden }) => !hidden)
        .map(({ isAtWork, transactionAt, messageAt, ...session }) => [
          nameOfSession(session),
          { isAtWork, isOlder: isBefore(transactionAt) || isBefore(messageAt) },
        ]),
    ),
    hasUnseen: older.some(({ hidden }) => hidden),
    prepared: new Map(
      look.prepared.map(({ id, preparedAtMs }) => [full(id), { preparedAtMs }] as const),
    ),
  };
}

export const nameOfSession = ({ pid, startedAt }: Pick<Session, 'pid' | 'startedAt'>) =>
  `session:${pid}:${startedAt}`;

/** Those of `roles`, and those with one of these virtual ids. None that has a transaction id. */
export function findReading(
  { sessions, locks }: Look,
  roles: ReadonlySet<number>,
  virtualIds: ReadonlySet<string>,
): ReadonlySet<number> {
  const pids = new Set(locks.filter(({ id }) => virtualIds.has(id)).map(({ pid }) => pid));
  const reading = sessions.filter(
    ({ pid, role = null, xid }) =>
      xid === null && (pids.has(pid) || (role !== null && roles.has(role))),
  );
  return new Set(reading.map(({ pid }) => pid));
}

export function namesOfProcesses(
  { sessions, locks }: Look,
  pids: ReadonlySet<number>,
): ReadonlySet<PendingName> {
  return new Set([
    ...sessions.filter(({ pid }) => pids.has(pid)).map(nameOfSession),
    ...locks.filter(({ pid }) => pids.has(pid)).map(({ id }) => id),
  ]);
}

export async function readServer(
  client: pg.Client,
  signal: AbortSignal,
): Promise<{ readonly isStandby: boolean; readonly nowMs: number }> {
  const [row] = await queryServer<{ isStandby: boolean; nowMs: number }>(
    client,
    `SELECT pg_is_in_recovery() AS "isStandby",
            extract(epoch FROM clock_timestamp())::float8 * 1000 AS "nowMs"`,
    signal,
  );
  return { isStandby: row?.isStandby ?? true, nowMs: row?.nowMs ?? 0 };
}
