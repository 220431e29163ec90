import type pg from 'pg';
import type { Model } from '../../../foundation/domain/model.ts';
import { quoteName, quoteNameIfNeeded, quoteText } from '../../query/print.ts';
import { columnsOfExpression } from '../../query/selection.ts';
import { closeConnection, connect, query } from './connection.ts';
import { findDeniedRights } from './denied-right.ts';
import { queryServer } from './own-statement.ts';
import { readRelationOf } from './plan.ts';

const patienceMs = 10_000;

/**
 * The role may have some already; only if it can log in is known what else it lacks.
 * @param isPaired whether the server is a standby, or the primary of one
 */
export async function findGrants(
  connectionString: string,
  models: readonly Model[],
  { onlyColumns, isPaired }: { readonly onlyColumns: boolean; readonly isPaired: boolean },
) {
  const signal = AbortSignal.timeout(patienceMs);
  const address = {
    connectionString,
    applicationName: 'sluice-check',
    connectTimeoutMs: patienceMs,
  };
  const client = await connect(address, signal).catch(() => null);
  if (client === null) {
    const role = roleOf(connectionString);
    return { role, isReached: false, statements: statementsFor(role, models, onlyColumns) };
  }
  try {
    const [me] = await query<{ role: string }>(client, 'SELECT current_user AS role', signal);
    const role = me?.role ?? roleOf(connectionString);
    const more: string[] = [...(await findMissingSettleRights(client, isPaired, signal))];
    for (const model of models) {
      const denied = await findDeniedRights(client, readRelationOf(model), signal).catch(() => []);
      // Of the relation itself is said already what is needed.
      more.push(...denied.filter(({ view }) => view !== null).map(({ grant }) => grant));
    }
    const statements = [...new Set([...statementsFor(role, models, onlyColumns), ...more])];
    return { role, isReached: true, statements };
  } finally {
    await closeConnection(client);
  }
}

const roleOf = (connectionString: string): string =>
  URL.canParse(connectionString) ? decodeURIComponent(new URL(connectionString).username) : '';

function statementsFor(
  role: string,
  models: readonly Model[],
  onlyColumns: boolean,
): readonly string[] {
  const name = quoteNameIfNeeded(role);
  const create = `IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = ${quoteText(role)}) THEN CREATE ROLE ${quoteName(role)} LOGIN; END IF`;
  const schemas = [...new Set(models.map(({ relation }) => relation.schema))];
  return [
    `DO $sluice$ BEGIN ${create}; END $sluice$`,
    `GRANT pg_read_all_stats TO ${name}`,
    ...schemas.map((schema) => `GRANT USAGE ON SCHEMA ${quoteNameIfNeeded(schema)} TO ${name}`),
    ...models.map((model) => {
      const { schema, name: table } = model.relation;
      const columns = onlyColumns ? ` (${columnsOf(model).map(quoteNameIfNeeded).join(', ')})` : '';
      return `GRANT SELECT${columns} ON ${quoteNameIfNeeded(schema)}.${quoteNameIfNeeded(table)} TO ${name}`;
    }),
    ...models.flatMap(({ changes }) => {
      if (changes?.deletes.kind !== 'tombstones') return [];
      const { schema, name: table } = changes.deletes.relation;
      return [
        `GRANT SELECT ON ${quoteNameIfNeeded(schema)}.${quoteNameIfNeeded(table)} TO ${name}`,
      ];
    }),
  ];
}

function columnsOf(model: Model): readonly string[] {
  const { changes } = model;
  const named = [
    model.tenantColumn,
    model.intervalColumn,
    ...model.keyColumns,
    model.eventColumn,
    changes?.versionColumn,
    changes?.deletes.kind === 'column' ? changes.deletes.column : null,
    ...model.columns.flatMap(({ name, expression }) =>
      expression === null ? [name] : columnsOfExpression(expression),
    ),
  ];
  return [...new Set(named)].filter((name) => name != null);
}

const ownTables = [
  'api_keys',
  'backfills',
  'batch_exports',
  'former_destinations',
  'idempotency_keys',
  'log_entries',
  'pipeline_transformation_configs',
  'plugins',
  'receipts',
  'runs',
];

/** As clauses about the role. A hole in the checks of queries would give a tenant these rights. */
export async function findExcessRights(
  client: pg.Client,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const [row] = await queryServer<{ isSuperuser: boolean; readsOwnTables: boolean }>(
    client,
    `SELECT EXISTS (SELECT FROM pg_roles AS r
                     WHERE r.rolsuper AND pg_has_role(current_user, r.oid, 'MEMBER')) AS "isSuperuser",
            EXISTS (SELECT FROM pg_class AS c
                     WHERE c.relname IN (${ownTables.map(quoteText).join(', ')}) AND c.relkind IN ('r', 'p')
                       AND has_table_privilege(c.oid, 'SELECT')
                       AND c.relnamespace IN (
                         SELECT own.relnamespace FROM pg_class AS own
                           JOIN pg_attribute AS a ON a.attrelid = own.oid
                          WHERE own.relname = 'batch_exports' AND a.attname = 'destination_secrets')
                   ) AS "readsOwnTables"`,
    signal,
  );
  return [
    ...(row?.isSuperuser ? ['is a superuser'] : []),
    ...(row?.readsOwnTables ? ["may read Sluice's own tables"] : []),
  ];
}

/** PostgreSQL lets every role read it, unless somebody has taken that away. */
const views = ['pg_event_trigger'];
const pairedViews = [...views, 'pg_stat_wal_receiver'];
const functions = [
  'pg_stat_get_activity',
  'pg_lock_status',
  'pg_prepared_xact',
  'pg_postmaster_start_time',
];
const pairedFunctions = [
  ...functions,
  ...['pg_control_system', 'pg_control_checkpoint', 'pg_control_recovery', 'pg_control_init'],
];

/** @param isPaired whether the server is a standby, or the primary of one @returns the SQL that gives each */
export async function findMissingSettleRights(
  client: pg.Client,
  isPaired: boolean,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const list = (names: readonly string[]) => names.map((name) => `'${name}'`).join(', ');
  const rows = await queryServer<{ grant: string }>(
    client,
    `SELECT format('GRANT SELECT ON pg_catalog.%I TO %I', c.relname, current_user) AS "grant"
       FROM pg_class AS c
      WHERE c.relnamespace = to_regnamespace('pg_catalog') AND c.relname IN (${list(isPaired ? pairedViews : views)})
        AND NOT has_table_privilege(c.oid, 'SELECT')
      UNION ALL
     SELECT format('GRANT EXECUTE ON FUNCTION pg_catalog.%s TO %I', p.oid::regprocedure, current_user)
       FROM pg_proc AS p
      WHERE p.pronamespace = to_regnamespace('pg_catalog') AND p.proname IN (${list(isPaired ? pairedFunctions : functions)})
        AND NOT has_function_privilege(p.oid, 'EXECUTE')
      ORDER BY 1`,
    signal,
  );
  return rows.map(({ grant }) => grant);
}
