import type pg from 'pg';
import { query, serverVersionOf } from './connection.ts';

/** Maximum time of a statement about the server, in milliseconds. */
const longestMs = 30_000;

/**
 * The limits of a transaction instead of the limits of the role. Each has a statement of its own: a short limit would end a
 * statement that does more.
 */
export function limitSqls(client: pg.Client, statementTimeoutMs: number): readonly string[] {
  return [
    ...((serverVersionOf(client) ?? 0) >= 17 ? ['SET LOCAL transaction_timeout = 0'] : []),
    `SET LOCAL statement_timeout = ${statementTimeoutMs}`,
  ];
}

/**
 * Runs a statement about the server, by itself. It is one message and one transaction, so nothing stays in a session of a pooler.
 * No setting of the role changes what it means: a path on which another `pg_locks` comes first, a limit of time, or an isolation level
 * that waits for other transactions.
 */
export function queryServer<Row extends pg.QueryResultRow>(
  client: pg.Client,
  sql: string,
  signal: AbortSignal,
): Promise<Row[]> {
  const settings = [
    ...limitSqls(client, longestMs),
    'SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY',
    'SET LOCAL search_path = pg_catalog',
  ];
  return query<Row>(client, `${settings.join('; ')}; ${sql}`, signal);
}
