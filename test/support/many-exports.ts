/** How many exports of `fillProject` have which health. */
export const filledCounts = {
  total: 5_000,
  failing: 4,
  late: 3,
  incomplete: 2,
  paused: 2,
  fine: 4_989,
} as const;

/** Name of the nth export. */
export const filledName = (n: number): string => `Export ${String(n).padStart(4, '0')}`;

/** Why the run of each failing export failed. */
export const filledError = 'destination.denied: Access denied. Allow the key to write.';

/**
 * A statement that gives the project `$1` 5,000 hourly exports and 10,000 runs: one of each export, and the rest of
 * Export 0012. Exports 1 to 4 are failing (Sluice paused the fourth), 5 to 7 are late,
 * 8 and 9 have a hole, and a person paused 10 and 11. The runs are the older, the higher the number.
 */
export const fillProject = `
  with hour as materialized (select date_trunc('hour', now(), 'UTC') as at, (extract(epoch from date_trunc('hour', now(), 'UTC')) * 1000)::bigint as ms),
  made as (
    insert into batch_exports (team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at,
           created_at, high_water_mark, last_success_at, failing_since, failure_streak, late_since,
           paused, paused_reason)
    select $1::int, 'Export ' || lpad(n::text, 4, '0'), 'NoOp', '{}', 'hour',
           jsonb_build_object('cadences', '[{"since":null,"cadence":{"interval":"hour","timezone":"UTC","offsetDay":null,"offsetHour":null}}]'::jsonb,
             'gates', jsonb_build_array(jsonb_build_object('since', ms - 3600000, 'pausedSince', null, 'startAt', null, 'endAt', null)),
             'openIntervalStart', ms, 'nextTickAt', ms + 3600000),
           at + interval '1 h', at - interval '30 days' - n * interval '1 min',
           case when n in (5, 6, 7) then at - interval '5 h' else at end, now() - interval '1 h',
           case when n <= 4 then now() - interval '2 h' end, case when n <= 4 then 1 else 0 end,
           case when n in (5, 6, 7) then now() - interval '3 h' end,
           n in (4, 10, 11), case when n = 4 then 'Paused after 10 failures.' end
      from generate_series(1, 5000) n, hour
    returning id, team_id, substr(name, 8)::int as n),
  hollow as (
    insert into holes (export_id, data_interval_start, data_interval_end)
    select id, at - interval '9 h', at - interval '8 h' from made, hour where n in (8, 9))
  insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, created_at, finished_at, error_code, latest_error)
  select id, team_id, case when n <= 4 then 'Failed' else 'Completed' end, start, start + interval '1 h',
         start + interval '2 h' - n * interval '1 s', now(), case when n <= 4 then 'destination.denied' end,
         case when n <= 4 then '${filledError}' end
    from made, hour, lateral generate_series(1, case when n = 12 then 5001 else 1 end) ago,
         lateral (select at - ago * interval '1 h' as start) h`;
