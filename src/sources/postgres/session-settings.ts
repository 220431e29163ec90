import { markOwnTransaction } from './live-transactions.ts';
import { tenantSetting } from './source-role.ts';

/** Of a snapshot's transaction, in milliseconds. */
interface Timeouts {
  readonly statementTimeoutMs: number;
  readonly idleTimeoutMs: number;
}

/** One statement for all settings of a transaction. It gives the snapshot, and when the server was started. */
export function setUpSql(options: Timeouts, teamId: number): string {
  const settings = sessionSettings(options, teamId).map(
    ([name, value]) => `pg_catalog.set_config('${name}', '${value}', true)`,
  );
  return `SELECT pg_catalog.pg_current_snapshot()::pg_catalog.text,
    pg_catalog.extract('epoch', pg_catalog.pg_postmaster_start_time())::pg_catalog.text, ${markOwnTransaction}, ${settings.join(', ')}`;
}

function sessionSettings(
  options: Timeouts,
  teamId: number,
): readonly (readonly [string, string | number])[] {
  return [
    ['statement_timeout', options.statementTimeoutMs],
    ['idle_in_transaction_session_timeout', options.idleTimeoutMs],
    // Row-level security shows the rows of this project only: source-role.ts.
    [tenantSetting, Number(teamId)],
    // The statements qualify every name with its schema; operators cannot be qualified (query/README.md).
    ['search_path', 'pg_catalog'],
    // The output of to_json must not depend on the settings of the role or the database.
    ['timezone', 'UTC'],
    ['client_encoding', 'UTF8'],
    ['extra_float_digits', 1],
    ['intervalstyle', 'iso_8601'],
    // Of times in arrays and composites that are printed; leaves the order in which dates are read.
    ['datestyle', 'ISO'],
    ['bytea_output', 'hex'],
    // A slice is read by its index, in order; other plans hold the rows back to sort them all. These
    // settings only influence the choice: without an index the server still finds another way.
    ['synchronize_seqscans', 'off'],
    ['enable_seqscan', 'off'],
    ['enable_bitmapscan', 'off'],
    ['max_parallel_workers_per_gather', 0],
    ['jit', 'off'],
  ];
}
