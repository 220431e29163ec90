import type { Sql } from '../database/database.ts';

/** @param silentSeconds how long ago it has decided schedules and dispatched runs, or has started */
export async function reportWorker(
  sql: Sql,
  id: string,
  capacity: number,
  smallCapacity = 0,
  silentSeconds = 0,
): Promise<void> {
  await sql.query(
    `insert into workers (id, capacity, small_capacity, silent_seconds) values ($1, $2, $3, $4)
     on conflict (id) do update set capacity = excluded.capacity, small_capacity = excluded.small_capacity,
            silent_seconds = excluded.silent_seconds, heartbeat_at = now()`,
    [id, capacity, smallCapacity, silentSeconds],
  );
}

export async function removeWorker(sql: Sql, id: string): Promise<void> {
  await sql.query(`delete from workers where id = $1`, [id]);
}

const reported = `heartbeat_at > now() - interval '30 s'`;
const sumNow = (column: string) =>
  `(select coalesce(sum(${column}), 0)::int from workers where ${reported})`;

/** SQL of the slots of all workers that reported in the last 30 seconds. */
export const capacityNow = sumNow('capacity');

/** SQL of their places for small runs. */
export const smallCapacityNow = sumNow('small_capacity');

export async function sumCapacity(sql: Sql): Promise<number> {
  const [row] = await sql.query<{ capacity: number }>(`select ${capacityNow} as capacity`);
  return row?.capacity ?? 0;
}

/** The seconds since a worker that reported lately decided schedules and dispatched runs, in seconds; null if none reported. */
export async function findSilence(sql: Sql): Promise<number | null> {
  const [row] = await sql.query<{ seconds: number | null }>(
    `select min(silent_seconds) as seconds from workers where ${reported}`,
  );
  return row?.seconds ?? null;
}

/** The workers that reported in the last minute, and the exports that are not paused. */
export async function countWorkersAndExports(
  sql: Sql,
): Promise<{ readonly workers: number; readonly exports: number }> {
  const [row] = await sql.query<{ workers: number; exports: number }>(
    `select (select count(*)::int from workers where heartbeat_at > now() - interval '1 minute') as workers,
            (select count(*)::int from batch_exports where deleted_at is null and not paused) as exports`,
  );
  if (!row) throw new Error('no row');
  return row;
}

/** Deletes workers that have been silent for ten minutes. If the clock was set back since, a worker that is alive reports again. */
export async function sweepWorkers(sql: Sql): Promise<void> {
  await sql.query(
    `delete from workers where heartbeat_at < now() - interval '10 minutes' or heartbeat_at > now() + interval '1 minute'`,
  );
}
