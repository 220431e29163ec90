import type pg from 'pg';
import { query, serverVersionOf } from './connection.ts';

const longestMs = 30_000;

/** Instead of those of the role. Each has a statement of its own: a short limit would end a statement that does more. */
export function limitSqls(client: pg.Client, statementTimeoutMs: number): readonly string[] {
  return [
    ...((serverVersionOf(client) ?? 0) >= 17 ? ['SET LOCAL transaction_timeout = 0'] : []),
    `SET LOCAL statement_timeout = ${statementTimeoutMs}`,
  ];
}

/**
 * One message and one transaction, so nothing stays in a session of a pooler. No setting of the role changes its
 * meaning: a path to another `pg_locks`, a limit of time, or an isolation level that waits for others.
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
