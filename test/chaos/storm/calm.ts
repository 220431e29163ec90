import { projectPath } from '../../support/exported-events.ts';
import { until } from '../../support/until.ts';
import { persistently, type World } from './world.ts';

/** A run that ended without success. */
export interface FailedRun {
  readonly name: string;
  readonly status: string;
  readonly error: string;
  readonly faults: number;
  /** How many attempts the run's log says failed. */
  readonly failures: number;
}

/** Waits until all has healed, stops the schedules and waits until nothing runs. */
export async function quiesce(world: World): Promise<void> {
  const { installation, exports } = world;
  await untilHealed(world).catch((error: unknown) =>
    world.surprises.push(`the healing: ${String(error)}`),
  );
  // Not by a pause: while a person has paused an export, nothing looks for its late rows.
  const end_at = new Date().toISOString();
  for (const { id } of exports) {
    const path = `${projectPath(installation)}/batch_exports/${id}/`;
    await until(
      async () =>
        (await installation.client.patch(path, { end_at })).status === 200 &&
        (await installation.client.post(`${path}unpause/`, {})).status < 500,
      { timeoutMs: 30_000, message: 'the API ends the schedule of an export' },
    );
  }
  await untilIdle(world);
}

/** SQL: whether a person paused the export `e`: then it does not heal. */
const isPausedByHand = `(e.paused and e.paused_reason is null)`;

/** Waits until no interval heals any more, without a hand. The pauses before probes and attempts are not waited for. */
async function untilHealed({ installation }: World): Promise<void> {
  const { pool } = installation;
  let left: unknown[] = [];
  await until(
    async () => {
      await pool.query(`update batch_exports set heal_after = now() where heal_after > now()`);
      await pool.query(`update holes set next_try_at = now() where next_try_at > now()`);
      await pool.query(`update receipts set look_after = null where look_after > now()`);
      await pool.query('update outbox set available_at = now() where available_at > now()');
      const found = await pool.query(
        `select e.name, h.data_interval_start, e.failing_error from holes h join batch_exports e on e.id = h.export_id
          where h.heals_since is not null and not ${isPausedByHand} and e.deleted_at is null order by h.heals_since limit 10`,
      );
      left = found.rows;
      return left.length === 0;
    },
    {
      timeoutMs: 300_000,
      everyMs: 2_000,
      message: () => `every interval has healed: ${JSON.stringify(left)}`,
    },
  );
}

/** Waits until nothing runs; a run that waits for its next attempt need not wait for its time. */
export async function untilIdle({ installation }: World): Promise<void> {
  const { pool, sql } = installation;
  let live: unknown[] = [];
  await until(
    async () => {
      await pool.query('update outbox set available_at = now() where available_at > now()');
      const found = await sql`
        select id, status, attempt, latest_error from runs where status in ('Starting', 'Running')
         union all select id, status, 0, 'a backfill' from backfills where status = 'Running'`;
      live = found.rows;
      return live.length === 0;
    },
    {
      timeoutMs: 300_000,
      everyMs: 500,
      message: () => `nothing runs any more: ${JSON.stringify(live.slice(0, 10))}`,
    },
  );
}

export async function listFailedRuns({ installation }: World): Promise<readonly FailedRun[]> {
  const { rows } = await persistently(() =>
    installation.pool.query<FailedRun>(
      `select e.name, r.status, r.latest_error as error, r.faults,
              (select count(*)::int from log_entries l where l.run_id = r.id
                 and (l.level = 'ERROR' or l.message ~ '^Attempt \\d+ failed')) as failures
         from runs r join batch_exports e on e.id = r.export_id
        where r.status in ('Failed', 'FailedRetryable') order by r.created_at`,
    ),
  );
  return rows;
}

/**
 * Runs again what does not heal: a person decides about it, or its interval has data and the run was to replace it. A source
 * that lacks delivered rows is refused again, so that is left as it is.
 */
export async function retryFailed(world: World): Promise<void> {
  const { installation } = world;
  const { rows } = await installation.pool.query<{ id: string; exportId: string }>(
    `select r.id, r.export_id as "exportId" from (
       select distinct on (export_id, data_interval_start) * from runs order by export_id, data_interval_start, created_at desc) r
      where r.status <> 'Completed' and coalesce(r.latest_error, '') not like 'source.rows_missing:%'
        and not exists (select from holes h where h.heals_since is not null and h.export_id = r.export_id and h.data_interval_start = r.data_interval_start)`,
  );
  for (const { id, exportId } of rows) {
    const path = `${projectPath(installation)}/batch_exports/${exportId}/runs/${id}/retry/`;
    await persistently(() => installation.client.post(path));
  }
  await untilIdle(world);
}

/**
 * The storm has killed workers at their other work too, which is set aside then, or waits until its time is over. An operator
 * lets it go on.
 */
export async function retrySetAsideWork({ installation }: World): Promise<void> {
  await installation.pool.query('delete from guarded_work');
}

/**
 * Waits until every interval is settled, or waits for the leaked transaction alone, and was looked at
 * since. One whose late rows wait for a person is not looked at: `compare` says if a row of it is missing. The pauses between two looks, and before what failed is removed again, are not waited for.
 */
export async function untilLookedBack(world: World): Promise<void> {
  const { pool, sql } = world.installation;
  const { rows } = await sql<{ leaked: string | null }>`select transaction::text as leaked
    from pg_prepared_xacts where gid = 'leaked'`;
  const leaked = rows[0]?.leaked ?? null;
  await retrySetAsideWork(world);
  // An interval whose last run was refused is left alone for 15 minutes.
  await sql`update runs set finished_at = finished_at - interval '15 minutes'
    where status in ('Failed', 'FailedRetryable')`;
  // Twice: a look in hand may have begun before the last transaction ended.
  for (let round = 0; round < 2; round += 1) {
    const { rows: times } = await sql<{ now: string }>`select clock_timestamp()::text as now`;
    await pool.query(
      `update receipts set pending_checked_at = now() - interval '2 hours', looked_back_at = now() - interval '2 hours',
              committed_at = least(committed_at, now() - interval '10 s') where not settled`,
    );
    await sql`update leftover_files set tried_at = null, deleted_at = deleted_at
      - interval '61 minutes'`;
    await pool.query('update upload_places set look_at = now(), tries = 0');
    let left: unknown[] = [];
    await until(
      async () => {
        const found = await sql`select export_id, data_interval_start, pending_transactions,
          pending_checked_at, late_rows_wait from receipts where not settled
          and late_rows_wait is null and (pending_checked_at < ${times[0]?.now}
          or not (pending_transactions <@ ${leaked === null ? [] : await namesOf(world, leaked)}::text[]))`;
        left = found.rows;
        return left.length === 0;
      },
      {
        timeoutMs: 180_000,
        everyMs: 500,
        message: () => `every interval is looked at: ${JSON.stringify(left.slice(0, 10))}`,
      },
    );
    await untilIdle(world);
  }
}

/** What our tables call the leaked transaction, and the server that it is of. */
async function namesOf({ installation }: World, leaked: string): Promise<readonly string[]> {
  const { rows } = await installation.sql<{ name: string }>`select distinct name from receipts,
    unnest(pending_transactions) name where name ~ ${leaked} or starts_with(name, 'at:')`;
  return rows.map(({ name }) => name);
}
