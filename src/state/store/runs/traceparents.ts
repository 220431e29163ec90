import type { Sql } from '../database/database.ts';

/** Notes the span that a run was created in. */
export async function noteTraceparent(tx: Sql, runId: string, traceparent: string): Promise<void> {
  await tx.query('update runs set traceparent = $2 where id = $1', [runId, traceparent]);
}

/** The spans that runs were created in, by run; those without one are missing. */
export async function findTraceparents(
  sql: Sql,
  runIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await sql.query<{ id: string; traceparent: string }>(
    'select id, traceparent from runs where id = any ($1::uuid[]) and traceparent is not null',
    [runIds],
  );
  return new Map(rows.map(({ id, traceparent }) => [id, traceparent]));
}
