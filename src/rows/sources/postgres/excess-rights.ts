import type pg from 'pg';
import { queryServer } from './own-statement.ts';
import { quoteText } from '../../query/print.ts';

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
