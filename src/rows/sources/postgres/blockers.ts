import type pg from 'pg';
import { oneLine } from '../../../foundation/domain/one-line.ts';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import type { Look } from './live-transactions.ts';
import { queryServer } from './own-statement.ts';
import { nothingWritten } from '../source.ts';
import { baseOf, type PendingName, sameId } from './pending.ts';

const mostNamed = 5;

/** For the owner: process, role, application and times; not what is executed, which may hold values of rows. */
export function describeBlockers(look: Look, pending: readonly PendingName[]): readonly string[] {
  const ofLock = new Map(look.locks.map(({ id, pid }) => [id, pid]));
  const sessions = pending.map((name) => {
    const base = baseOf(name);
    const prepared = /^prepared:(\d+)$/.exec(base)?.[1];
    if (prepared !== undefined) return describePrepared(look, prepared);
    const pid = ofLock.get(base) ?? Number(/^session:(\d+):/.exec(base)?.[1] ?? Number.NaN);
    return Number.isNaN(pid) ? null : describeSession(look, pid);
  });
  const all = [...new Set(sessions.filter((text) => text !== null))];
  const rest = all.length - mostNamed;
  return rest > 0 ? [...all.slice(0, mostNamed), `${rest} more`] : all;
}

function describeSession({ sessions }: Look, pid: number): string {
  const session = sessions.find((one) => one.pid === pid);
  if (!session) return `process ${pid}`;
  const { user, application, transactionAt, queryAt, xid } = session;
  const facts = [
    ...(user ? [`role ${oneLine(user)}`] : []),
    ...(application ? [`application ${oneLine(application)}`] : []),
    ...(transactionAt === null ? [] : [`transaction since ${timeOf(transactionAt)}`]),
    ...(queryAt == null ? [] : [`last statement since ${timeOf(queryAt)}`]),
    ...(transactionAt === null || xid !== null ? [] : [nothingWritten]),
  ];
  return facts.length === 0 ? `process ${pid}` : `process ${pid} (${facts.join(', ')})`;
}

function describePrepared({ prepared }: Look, id: string): string {
  const transaction = prepared.find((one) => sameId(BigInt(one.id), BigInt(id)));
  const gid = transaction?.gid ? ` ${oneLine(transaction.gid)}` : '';
  const since = transaction ? ` since ${timeOf(transaction.preparedAtMs * 1_000)}` : '';
  return `prepared transaction${gid}${since}`;
}

const timeOf = (micros: number): string => toTimestamp(Math.floor(micros / 1_000));

/** Finds statements that need the right to write, or checks the right of the caller to EXECUTE each function that it calls. */
const checksCaller = ['trigger', 'rewrite', 'policy', 'attrdef', 'constraint', 'class']
  .map((name) => `'pg_catalog.pg_${name}'::regclass`)
  .join(', ');

/** With the rights of their owner, and without EXECUTE: of aggregates, operator classes, types, event triggers. */
const reachedByAll = `EXISTS (SELECT FROM pg_depend AS d
  WHERE d.refclassid = 'pg_catalog.pg_proc'::regclass AND d.refobjid = p.oid AND d.classid NOT IN (${checksCaller}))`;

/** PostgreSQL 17 has a right to REFRESH, ANALYZE and REINDEX, which run code of the owner, and fill materialized views. */
const writes = `CASE WHEN current_setting('server_version_num')::int >= 170000
  THEN 'INSERT, UPDATE, DELETE, TRUNCATE, MAINTAIN' ELSE 'INSERT, UPDATE, DELETE, TRUNCATE' END`;

/**
 * Says whether a role, or one that it can become, can write nothing here, itself or by functions with other rights.
 * PostgreSQL does not show whether a transaction is READ ONLY; this is what can be proven.
 */
const readersSql = (roles: readonly number[]) => `
  SELECT r.oid::int8 AS role FROM pg_roles AS r
   WHERE r.oid IN (${roles.join(', ')}) AND NOT EXISTS (
     SELECT FROM pg_roles AS m
      WHERE pg_has_role(r.oid, m.oid, 'MEMBER')
        AND (m.rolsuper OR m.rolcreaterole
          OR EXISTS (SELECT FROM pg_class AS c
                      WHERE c.oid >= 16384 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
                        AND (c.relowner = m.oid OR has_table_privilege(m.oid, c.oid, ${writes})
                             OR has_any_column_privilege(m.oid, c.oid, 'INSERT, UPDATE')))
          OR EXISTS (SELECT FROM pg_proc AS p
                      WHERE p.oid >= 16384 AND p.prosecdef
                        AND (has_function_privilege(m.oid, p.oid, 'EXECUTE') OR ${reachedByAll}))))`;

export async function findReaders(
  client: pg.Client,
  { sessions }: Look,
  signal: AbortSignal,
): Promise<ReadonlySet<number>> {
  const roles = [...new Set(sessions.flatMap(({ role }) => role ?? []))];
  if (roles.length === 0) return new Set();
  const rows = await queryServer<{ role: string }>(client, readersSql(roles), signal);
  return new Set(rows.map(({ role }) => Number(role)));
}
