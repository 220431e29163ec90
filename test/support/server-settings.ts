import type { Client } from 'pg';

/** They change how rows are found, what is logged, or how a server writes, never what a row is. */
const harmlessCategories =
  /^(Query Tuning|Resource Usage|Reporting and Logging|Vacuuming|Statistics|Write-Ahead Log|Replication|Connections and Authentication|Lock Management|File Locations|Process Title)\b/;

/** Settings of other categories that change no row of a transaction that only reads, by the reason. */
const harmless: Readonly<Record<string, readonly string[]>> = {
  'part of what the owner means with a view, as search_path is': ['default_text_search_config'],
  'only about writing, vacuuming or objects that are made': [
    'allow_in_place_tablespaces',
    'allow_system_table_mods',
    'check_function_bodies',
    'createrole_self_grant',
    'default_table_access_method',
    'default_tablespace',
    'default_toast_compression',
    'event_triggers',
    'gin_pending_list_limit',
    'icu_validation_level',
    'lo_compat_privileges',
    'remove_temp_files_after_crash',
    'temp_tablespaces',
    'vacuum_failsafe_age',
    'vacuum_freeze_min_age',
    'vacuum_freeze_table_age',
    'vacuum_multixact_failsafe_age',
    'vacuum_multixact_freeze_min_age',
    'vacuum_multixact_freeze_table_age',
    'wal_consistency_checking',
  ],
  'only messages': [
    'client_min_messages',
    'escape_string_warning',
    'lc_messages',
    'application_name',
  ],
  'which files a server loads': [
    'dynamic_library_path',
    'extension_control_path',
    'jit_debugging_support',
    'jit_dump_bitcode',
    'jit_expressions',
    'jit_profiling_support',
    'jit_tuple_deforming',
    'local_preload_libraries',
    'session_preload_libraries',
  ],
  'tests of the server itself': [
    'backtrace_functions',
    'debug_copy_parse_plan_trees',
    'debug_discard_caches',
    'debug_io_direct',
    'debug_logical_replication_streaming',
    'debug_parallel_query',
    'debug_raw_expression_coverage_test',
    'debug_write_read_parse_plan_trees',
    'force_parallel_mode',
    'ignore_invalid_pages',
    'ignore_system_indexes',
    'log_btree_build_stats',
    'post_auth_delay',
    'send_abort_for_crash',
    'send_abort_for_kill',
    'trace_locks',
    'trace_lwlocks',
    'trace_notify',
    'trace_recovery_messages',
    'trace_sort',
    'trace_syncscan',
  ],
  'random numbers are random': ['seed'],
  'the role reads with its own rights': ['role', 'session_authorization', 'is_superuser'],
  'refuses relations, with an error': ['restrict_nonsystem_relation_kind'],
  'only a superuser may set it; models check warns': [
    'ignore_checksum_failure',
    'zero_damaged_pages',
  ],
};

const ofTransaction = ['transaction_deferrable', 'transaction_isolation', 'transaction_read_only'];

/** Settings that need no pin on one side, but may on the other. */
const harmlessFor: Readonly<Record<Side, readonly string[]>> = {
  'a source': [
    // Each transaction sets them, or says its own isolation.
    ...ofTransaction,
    'default_transaction_deferrable',
    'default_transaction_isolation',
    'default_transaction_read_only',
    'idle_in_transaction_session_timeout',
    'row_security',
    'search_path',
    'statement_timeout',
    'transaction_timeout',
    // A session ends, and the next attempt follows.
    'exit_on_error',
    'idle_session_timeout',
    // Only about writing.
    'session_replication_role',
  ],
  'our own database': [
    ...ofTransaction,
    // Set with the pinned ones, by `own-schema.ts` and as a limit of transactions.
    'idle_in_transaction_session_timeout',
    'search_path',
    // By it operators stop writes.
    'default_transaction_read_only',
    // A statement that needs an order says it.
    'synchronize_seqscans',
    // No statement of ours prints or reads money, names of months, zones or XML; the driver sets the encoding.
    'client_encoding',
    'lc_monetary',
    'lc_numeric',
    'lc_time',
    'timezone_abbreviations',
    'xmlbinary',
    'xmloption',
  ],
};

type Side = 'a source' | 'our own database';

/** Settings that a role may have, and that are neither pinned nor known to change nothing. */
export async function findOpenSettings(
  admin: Pick<Client, 'query'>,
  pinned: readonly string[],
  side: Side,
): Promise<readonly string[]> {
  const { rows } = await admin.query<{ name: string; category: string }>(
    `select name, category from pg_settings
      where context in ('user', 'superuser', 'backend', 'superuser-backend') order by name`,
  );
  const decided = new Set(
    [...pinned, ...Object.values(harmless).flat(), ...harmlessFor[side]].map((name) =>
      name.toLowerCase(),
    ),
  );
  return rows
    .filter(
      ({ name, category }) =>
        !harmlessCategories.test(category) && !decided.has(name.toLowerCase()),
    )
    .map(({ name }) => name);
}
