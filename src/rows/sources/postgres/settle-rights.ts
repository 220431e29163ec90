import type pg from 'pg';
import { queryServer } from './own-statement.ts';

/** PostgreSQL lets every role read it, unless somebody has taken that away. */
const views = ['pg_event_trigger'];
const functions = [
  'pg_stat_get_activity',
  'pg_lock_status',
  'pg_prepared_xact',
  'pg_postmaster_start_time',
];
const pairedViews = ['pg_stat_wal_receiver'];
const pairedFunctions = [
  'pg_control_system',
  'pg_control_checkpoint',
  'pg_control_recovery',
].concat('pg_control_init');

/** @param isPaired whether the server is a standby, or the primary of one @returns the SQL that gives each */
export async function findMissingSettleRights(
  client: pg.Client,
  isPaired: boolean,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const list = (names: readonly string[]) => names.map((name) => `'${name}'`).join(', ');
  const wanted = isPaired ? [...views, ...pairedViews] : views;
  const called = isPaired ? [...functions, ...pairedFunctions] : functions;
  const rows = await queryServer<{ grant: string }>(
    client,
    `SELECT format('GRANT SELECT ON pg_catalog.%I TO %I', c.relname, current_user) AS "grant"
       FROM pg_class AS c
      WHERE c.relnamespace = to_regnamespace('pg_catalog') AND c.relname IN (${list(wanted)})
        AND NOT has_table_privilege(c.oid, 'SELECT')
      UNION ALL
     SELECT format('GRANT EXECUTE ON FUNCTION pg_catalog.%s TO %I', p.oid::regprocedure, current_user)
       FROM pg_proc AS p
      WHERE p.pronamespace = to_regnamespace('pg_catalog') AND p.proname IN (${list(called)})
        AND NOT has_function_privilege(p.oid, 'EXECUTE')
      ORDER BY 1`,
    signal,
  );
  return rows.map(({ grant }) => grant);
}
