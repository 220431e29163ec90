import { command, queryNumber, queryOne, queryValue } from '../database/statement.ts';

/** @param silentSeconds how long ago it has decided schedules and dispatched runs, or has started */
export const reportWorker = command(
  `insert into workers (id, capacity, small_capacity, silent_seconds) values ($1, $2, $3, $4)
     on conflict (id) do update set capacity = excluded.capacity, small_capacity = excluded.small_capacity,
            silent_seconds = excluded.silent_seconds, heartbeat_at = now()`,
  (id: string, capacity: number, smallCapacity = 0, silentSeconds = 0) => [
    id,
    capacity,
    smallCapacity,
    silentSeconds,
  ],
);

export const removeWorker = command<[id: string]>(`delete from workers where id = $1`);

const reported = `heartbeat_at > now() - interval '30 s'`;
const sumNow = (column: string) =>
  `(select coalesce(sum(${column}), 0)::int from workers where ${reported})`;

/** SQL of the slots of all workers that reported in the last 30 seconds. */
export const capacityNow = sumNow('capacity');

/** SQL of their places for small runs. */
export const smallCapacityNow = sumNow('small_capacity');

export const sumCapacity = queryNumber(`select ${capacityNow} as capacity`);

/** The seconds since a worker that reported lately decided schedules and dispatched runs, in seconds; null if none reported. */
export const findSilence = queryValue<number>(
  `select min(silent_seconds) as seconds from workers where ${reported}`,
);

/** The workers that reported in the last minute, and the exports that are not paused. */
export const countWorkersAndExports = queryOne<{ workers: number; exports: number }>(`
     select (select count(*)::int from workers where heartbeat_at > now() - interval '1 minute') as workers,
            (select count(*)::int from batch_exports where deleted_at is null and not paused) as exports`);

/** Deletes workers that have been silent for ten minutes. If the clock was set back since, a worker that is alive reports again. */
export const sweepWorkers = command(
  `delete from workers where heartbeat_at < now() - interval '10 minutes' or heartbeat_at > now() + interval '1 minute'`,
);
