import type { Sql } from './database.ts';

/** Reports that a worker is up, and how many slots it has. */
export async function reportWorker(sql: Sql, id: string, capacity: number): Promise<void> {
  await sql.query(
    `insert into workers (id, capacity) values ($1, $2)
     on conflict (id) do update set capacity = excluded.capacity, heartbeat_at = now()`,
    [id, capacity],
  );
}

export async function removeWorker(sql: Sql, id: string): Promise<void> {
  await sql.query(`delete from workers where id = $1`, [id]);
}

/** SQL of the slots of all workers that reported in the last 30 seconds. */
export const capacityNow = `(select coalesce(sum(capacity), 0)::int from workers where heartbeat_at > now() - interval '30 s')`;

/** The slots of all workers that reported in the last 30 seconds. */
export async function sumCapacity(sql: Sql): Promise<number> {
  const [row] = await sql.query<{ capacity: number }>(`select ${capacityNow} as capacity`);
  return row?.capacity ?? 0;
}

/** Deletes workers that have been silent for ten minutes. */
export async function sweepWorkers(sql: Sql): Promise<void> {
  await sql.query(`delete from workers where heartbeat_at < now() - interval '10 minutes'`);
}
