import type pg from 'pg';
import { backfill, type MadeExport, type Range } from '../service/calls.ts';

/** Notes when a run is dispatched and when its end is recorded, by the clock of the database. */
const watchTimes = `
  create table bench_times (run_id uuid primary key, dispatched_at timestamptz, recorded_at timestamptz);
  grant all on bench_times to public;
  create function bench_dispatched() returns trigger language plpgsql as $$ begin
    insert into bench_times values (new.run_id, clock_timestamp()) on conflict do nothing; return null; end $$;
  create function bench_recorded() returns trigger language plpgsql as $$ begin
    update bench_times set recorded_at = clock_timestamp() where run_id = new.id; return null; end $$;
  create trigger bench_dispatched after update of dispatched_at on outbox for each row
    when (new.dispatched_at is not null) execute function bench_dispatched();
  create trigger bench_recorded after update of status on runs for each row
    when (new.status = 'Completed') execute function bench_recorded();`;

const forgetTimes = `
  drop trigger bench_dispatched on outbox; drop trigger bench_recorded on runs;
  drop function bench_dispatched; drop function bench_recorded; drop table bench_times;`;

/**
 * Runs that come one after the other: milliseconds from the dispatch of each to the record of its end,
 * the median. Two triggers note the times, and take a part of them.
 */
export async function measureAlone(pool: pg.Pool, made: MadeExport, range: Range): Promise<number> {
  await pool.query(watchTimes);
  try {
    await backfill(pool, [made], range, 1);
    const { rows } = await pool.query<{ ms: number }>(
      `select percentile_cont(0.5) within group (order by extract(epoch from recorded_at - dispatched_at) * 1000) as ms
         from bench_times where recorded_at is not null`,
    );
    return rows[0]?.ms ?? Number.NaN;
  } finally {
    await pool.query(forgetTimes);
  }
}
