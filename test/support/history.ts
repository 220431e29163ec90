import type { Pool, PoolClient } from 'pg';

/** How much history `fillHistory` writes. */
export interface HistorySize {
  readonly teams: number;
  readonly exports: number;
  /** Hourly, up to now. */
  readonly runsPerExport: number;
  /** Of the first export. */
  readonly longExportRuns: number;
  readonly logsPerRun: number;
}

/** SQL of the level of a run's entry `n`. */
const levelOf = `(array['DEBUG', 'INFO', 'INFO', 'INFO', 'WARNING'])[1 + n % 5]`;

/** Runs that wait in the outbox, of the newest interval. */
const waiting = 300;

/**
 * Writes ended runs with ticks, receipts and log entries, in the order in which a service would, and some
 * live runs. No trigger runs, so what triggers count is written too. Indexes are built at the end: of ten million
 * rows each takes minutes if every row goes to its place in a random order.
 *
 * @returns the export with the longest history
 */
export async function fillHistory(pool: Pool, size: HistorySize): Promise<string> {
  const client = await pool.connect();
  try {
    await client.query('set session_replication_role = replica');
    await client.query('set synchronous_commit = off');
    await client.query(`set maintenance_work_mem = '256MB'; set work_mem = '128MB'`);
    await writeExports(client, size);
    const buildIndexes = await dropIndexes(client);
    const { rows } = await client.query<{ id: string }>(
      `select id from batch_exports order by name limit 1`,
    );
    const long = rows[0]?.id ?? '';
    await writeRuns(client, size, long);
    await writeResults(client, size);
    await buildIndexes();
    await client.query('reset session_replication_role');
    await client.query('vacuum analyze');
    return long;
  } finally {
    client.release(true);
  }
}

/** Drops those that belong to no constraint. @returns what makes them again */
async function dropIndexes(client: PoolClient): Promise<() => Promise<void>> {
  const { rows } = await client.query<{ name: string; sql: string }>(
    `select i.indexrelid::regclass::text as name, pg_get_indexdef(i.indexrelid) as sql from pg_index i
      where i.indrelid = any ('{runs, receipts, ticks, holes, log_entries, activity}'::regclass[])
        and not exists (select from pg_constraint c where c.conindid = i.indexrelid)`,
  );
  for (const { name } of rows) await client.query(`drop index ${name}`);
  return async () => {
    for (const { sql } of rows) await client.query(sql);
  };
}

async function writeExports(client: PoolClient, { teams, exports }: HistorySize): Promise<void> {
  await client.query(
    `with o as (insert into organizations (name) select 'Organization ' || n from generate_series(1, $1::int) n returning id)
     insert into projects (organization_id, name) select id, 'Project' from o`,
    [teams],
  );
  await client.query(
    `insert into batch_exports (team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at, created_at)
     select t.id, 'Export ' || lpad(n::text, 9, '0'), 'NoOp', '{}', 'hour',
            jsonb_build_object('cadences', '[{"since":null,"cadence":{"interval":"hour","timezone":"UTC","offsetDay":0,"offsetHour":0}}]'::jsonb,
              'gates', jsonb_build_array(jsonb_build_object('since', ms - 3600000, 'pausedSince', null, 'startAt', null, 'endAt', null)),
              'openIntervalStart', ms - 3600000, 'nextTickAt', ms), at, now() - interval '3 years'
       from generate_series(0, $1::int - 1) n
       join (select id, row_number() over (order by id) - 1 as place, count(*) over () as total from projects) t on t.place = n % t.total,
            -- One in fifty is due.
            lateral (select date_trunc('hour', now(), 'UTC') + (n % 50 <> 0)::int * interval '1 h' as at) due,
            lateral (select (extract(epoch from at) * 1000)::bigint as ms) tick`,
    [exports],
  );
}

async function writeRuns(client: PoolClient, size: HistorySize, long: string): Promise<void> {
  await client.query(
    `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, attempt, records_total_count,
            records_completed, snapshot, settled, steps, created_at, started_at, finished_at, last_updated_at)
     select e.id, e.team_id, case when ago % 100 = 7 then 'Failed' when ago % 100 = 9 then 'FailedRetryable' else 'Completed' end,
            at, at + interval '1 h', 1, 100, 100, '1:1:', true, '[]', at + interval '1 h', at + interval '1 h', at + interval '61 min', at + interval '61 min'
       from batch_exports e, lateral generate_series(2, case when e.id = $1 then $2::int else $3::int end + 1) ago,
            lateral (select date_trunc('hour', now(), 'UTC') - ago * interval '1 h' as at) t
      order by ago desc, e.name`,
    [long, size.longExportRuns, size.runsPerExport],
  );
  await client.query(
    `with live as (
       insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, attempt, lease_holder, lease_expires_at)
       select id, team_id, case when n <= $1 then 'Starting' else 'Running' end, at, at + interval '1 h', 0,
              case when n > $1 then 'worker' end, case when n > $1 then now() + ((n % 3) - 1) * interval '1 min' end
         from (select *, row_number() over (order by name) as n from batch_exports) e,
              lateral (select date_trunc('hour', now(), 'UTC') - interval '1 h' as at) t
        where n <= $1 + 30 returning *)
     insert into outbox (run_id, team_id, export_id, data_interval_start, ready, dispatched_at)
     select id, team_id, export_id, data_interval_start, true, case when id::text < '2' then clock_timestamp() - interval '1 min' end
       from live where status = 'Starting'`,
    [waiting],
  );
  await client.query(
    `insert into workers (id, capacity, small_capacity) select 'worker ' || n, 50, 0 from generate_series(1, 4) n`,
  );
}

async function writeResults(client: PoolClient, { logsPerRun }: HistorySize): Promise<void> {
  await client.query(
    `insert into receipts (export_id, data_interval_start, data_interval_end, run_id, files, rows, bytes, snapshot, settled, key_count, committed_at,
                           era, destination_version, generation, rejected_files, recipe, pending_transactions, pending_checked_at, looked_back_at)
     select export_id, data_interval_start, data_interval_end, id, '[{"key": "a/b/c.jsonl.gz", "rows": 100, "bytes": 1000, "sha256": ""}]',
            100, 1000, '1:1:', data_interval_end < now() - interval '2 hours' or team_id % 10 <> 0, 100, finished_at,
            gen_random_uuid(), 0, 1, '[]', '{}', '{}', finished_at, finished_at
       from runs where status = 'Completed' order by created_at`,
  );
  await client.query(
    `insert into ticks (export_id, tick_at, data_interval_start, data_interval_end, fate, run_id, decided_at)
     select export_id, data_interval_end, data_interval_start, data_interval_end, 'ran', id, created_at from runs order by created_at`,
  );
  await client.query(
    `insert into holes (export_id, data_interval_start, data_interval_end)
     select export_id, data_interval_start, data_interval_end from runs where status in ('Failed', 'FailedRetryable')`,
  );
  await client.query(
    `update batch_exports e set high_water_mark = h.mark from (
       select export_id, min(data_interval_start) as mark from holes group by 1) h where h.export_id = e.id`,
  );
  await client.query(
    `insert into log_entries (team_id, export_id, run_id, timestamp, level, message)
     select team_id, export_id, id, finished_at, ${levelOf}, 'Step ' || n || ' of the run is done.'
       from runs, generate_series(1, $1::int) n where finished_at is not null order by created_at`,
    [logsPerRun],
  );
  await client.query(
    `insert into activity (subject_type, subject_id, action, happened_at)
     select 'batch_export', id, 'updated', now() - n * interval '1 h' from batch_exports, generate_series(1, 20) n`,
  );
}
