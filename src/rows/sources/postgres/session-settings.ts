import { quoteText } from '../../query/print.ts';
import { markOwnTransaction } from './live-transactions.ts';
import { tenantSetting } from './source-role.ts';

export interface Reader {
  readonly tenantKey: string;
  readonly rowSecurity?: string;
}

/** Without `limitSqls`. Gives the snapshot, the server's start, the pid, and a moment before the snapshot. */
export function setUpSql(idleTimeoutMs: number, reader: Reader): string {
  const { tenantKey, rowSecurity = "'off'" } = reader;
  const limits = Object.entries({
    idle_in_transaction_session_timeout: idleTimeoutMs,
    // Row-level security shows the rows of this project only: source-role.ts.
    [tenantSetting]: tenantKey,
  });
  const settings = [...limits, ...Object.entries(pinnedSettings)].map(([name, value]) =>
    setSql(name, String(value)),
  );
  return `SELECT pg_catalog.pg_current_snapshot()::pg_catalog.text,
    pg_catalog.extract('epoch', pg_catalog.pg_postmaster_start_time())::pg_catalog.text,
    pg_catalog.pg_backend_pid(), pg_catalog.extract('epoch', pg_catalog.statement_timestamp())::pg_catalog.text, ${markOwnTransaction}, ${ownPath}, ${settings.join(', ')},
    pg_catalog.set_config('row_security', ${rowSecurity}, true)`;
}

/** The server reads this setting from a file, which takes longer than all others together: it is set only if it differs. */
const readFromFile = 'timezone_abbreviations';

function setSql(name: string, value: string): string {
  const set = `pg_catalog.set_config('${name}', ${quoteText(value)}, true)`;
  if (name !== readFromFile) return set;
  return `CASE WHEN NOT pg_catalog.texteq(pg_catalog.current_setting('${name}'), ${quoteText(value)}) THEN ${set} END`;
}

/**
 * Built-in operators come first, whatever the role's path is, and then that path: functions behind views need it. No
 * operator here, as the path is still the role's. `query/README.md`: which operators we qualify.
 */
const ownPath = `pg_catalog.set_config('search_path',
    CASE WHEN pg_catalog.texteq(pg_catalog.current_setting('search_path'), '') THEN 'pg_catalog'
         ELSE pg_catalog.concat('pg_catalog, ', pg_catalog.current_setting('search_path')) END, true)`;

/**
 * Whatever the role, the database or the server sets, the files are the same. `test/conformance/source-settings.test.ts`
 * asks about each setting of PostgreSQL.
 */
export const pinnedSettings: Readonly<Record<string, string | number>> = {
  // These decide how values are printed.
  bytea_output: 'hex',
  client_encoding: 'UTF8',
  datestyle: 'ISO, MDY',
  extra_float_digits: 1,
  intervalstyle: 'iso_8601',
  lc_monetary: 'C',
  lc_numeric: 'C',
  lc_time: 'C',
  quote_all_identifiers: 'off',
  timezone: 'UTC',
  xmlbinary: 'base64',
  xmloption: 'content',
  // These decide how text is read.
  array_nulls: 'on',
  backslash_quote: 'safe_encoding',
  standard_conforming_strings: 'on',
  timezone_abbreviations: 'Default',
  transform_null_equals: 'off',
  // Any other value lets an index leave out rows.
  gin_fuzzy_search_limit: 0,
  // Statements have a limit of their own; a lock is waited for as long.
  lock_timeout: 0,
  // A slice is read by its index, in order; other plans hold the rows back to sort them all. These
  // settings only influence the choice: without an index the server still finds another way.
  synchronize_seqscans: 'off',
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  max_parallel_workers_per_gather: 0,
  jit: 'off',
};
