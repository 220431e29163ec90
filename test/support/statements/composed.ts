import type { RunFilter } from '../../../src/foundation/domain/run.ts';
import type { Sql } from '../../../src/state/store/database/database.ts';
import type { Reach } from '../../../src/state/store/tenants/tenants.ts';

/** The modules of the store whose functions compose statements from what they are given. */
interface Modules {
  'exports/backfills.ts': typeof import('../../../src/state/store/exports/backfills.ts');
  'exports/export-lists.ts': typeof import('../../../src/state/store/exports/export-lists.ts');
  'exports/exports.ts': typeof import('../../../src/state/store/exports/exports.ts');
  'exports/log-entries.ts': typeof import('../../../src/state/store/exports/log-entries.ts');
  'files/upload-places.ts': typeof import('../../../src/state/store/files/upload-places.ts');
  'healing/operator-causes.ts': typeof import('../../../src/state/store/healing/operator-causes.ts');
  'intervals/stated-records.ts': typeof import('../../../src/state/store/intervals/stated-records.ts');
  'notifications/notification-deliveries.ts': typeof import('../../../src/state/store/notifications/notification-deliveries.ts');
  'runs/runs.ts': typeof import('../../../src/state/store/runs/runs.ts');
  'tenants/sealed-secrets.ts': typeof import('../../../src/state/store/tenants/sealed-secrets.ts');
  'tenants/tenant-rows.ts': typeof import('../../../src/state/store/tenants/tenant-rows.ts');
  'tenants/tenants.ts': typeof import('../../../src/state/store/tenants/tenants.ts');
  'tenants/usage.ts': typeof import('../../../src/state/store/tenants/usage.ts');
  'transformations/plugins.ts': typeof import('../../../src/state/store/transformations/plugins.ts');
  'transformations/transformation-configs.ts': typeof import('../../../src/state/store/transformations/transformation-configs.ts');
}

export type Load = <Path extends keyof Modules>(path: Path) => Promise<Modules[Path]>;

const id = '00000000-0000-0000-0000-000000000001';
const at = '2024-03-01T00:00:00.000000Z' as never;
const page = { limit: 1, offset: 0 };
const reaches: readonly Reach[] = [
  { organizationId: id, teamId: 1 },
  { organizationId: id, teamId: null },
];
const positions = [null, { direction: 'next', at, id }, { direction: 'previous', at, id }] as const;
const interval = { start: 0, end: 1 } as never;
const lease = { runId: id, fence: 1 };

/**
 * Calls each function that composes a statement from its arguments, once for each form of the statement.
 *
 * @param sql answers every statement with no row
 * @param database a database with our tables
 */
export async function composeStatements(load: Load, sql: Sql, database: Sql): Promise<void> {
  await composeExports(load, sql, database);
  await composeRuns(load, sql);
  await composeTenants(load, sql, database);

  const { endLook } = await load('files/upload-places.ts');
  const looked = { exportId: id, destinationVersion: 1, notes: 1, isBusy: false, tries: 1 };
  for (const end of ['clean', 'some left', 'failed', 'not tried'] as const) {
    await endLook(sql, looked, end);
  }

  const { listOperatorExports } = await load('healing/operator-causes.ts');
  const nothing = { search: null, turn: null, causeId: null, healths: null };
  await listOperatorExports(sql, nothing, page);
  const searched = { search: 'a', turn: 'operator', causeId: id, healths: ['late'] } as const;
  await listOperatorExports(sql, searched as never, page);

  const { listDeliveries } = await load('notifications/notification-deliveries.ts');
  for (const position of positions) {
    await listDeliveries(sql, id, null, position, 1);
  }
  await listDeliveries(sql, id, 'waiting', null, 1);
}

async function composeExports(load: Load, sql: Sql, database: Sql): Promise<void> {
  const { findPassedOver, findPassedOverIn, listBackfills } = await load('exports/backfills.ts');
  for (const reprocess of ['failed', 'missing', 'none'] as const) {
    await findPassedOver(sql, id, [], reprocess);
    await findPassedOverIn(sql, id, interval, reprocess);
  }
  await findPassedOverIn(sql, id, interval, 'all');
  for (const position of positions) await listBackfills(sql, id, position, 1);

  const lists = await load('exports/export-lists.ts');
  const { findBatchExport, lockExport } = await load('exports/exports.ts');
  const found = { healths: null, search: null, orderBy: 'created_at', descending: true } as const;
  for (const reach of reaches) {
    await lists.listBatchExports(sql, reach, page);
    await lists.countExportHealths(database, reach);
    await lists.findBatchExports(sql, reach, found, page);
    await findBatchExport(sql, reach, id);
  }
  const [reach] = reaches as [Reach];
  for (const orderBy of ['created_at', 'name', 'health', 'last_run'] as const) {
    const wanted = { healths: ['late'], search: 'a', orderBy, descending: false } as const;
    await lists.findBatchExports(sql, reach, wanted, page);
  }
  for (const evenDeleted of [true, false]) await lockExport(sql, id, { evenDeleted });

  const { listLogEntries } = await load('exports/log-entries.ts');
  const all = { exportId: id, runId: null, levels: null, after: null, before: null, search: null };
  await listLogEntries(sql, all, page);
  await listLogEntries(sql, { ...all, levels: ['INFO'], search: 'a' }, page);
  const span = { after: { at }, before: { spanBack: '1 day' } };
  await listLogEntries(sql, { ...all, ...span, runId: id, levels: ['INFO', 'ERROR'] }, page);
}

async function composeRuns(load: Load, sql: Sql): Promise<void> {
  const { failRun, listRuns } = await load('runs/runs.ts');
  for (const event of ['failed', 'exhausted'] as const) {
    await failRun(sql, lease, event, { code: 'a', text: 'a' });
  }
  const bounds = {
    createdAfter: null,
    createdBefore: null,
    intervalStart: null,
    intervalEnd: null,
  };
  const request = { exportId: id, ...bounds, descending: true, limit: 1 };
  for (const orderBy of ['created_at', 'data_interval_start'] as const) {
    for (const position of positions) {
      await listRuns(sql, { ...request, statuses: null, orderBy, position });
    }
  }
  const statuses: readonly RunFilter[] = ['Failed', 'Retrying'];
  const bounded = { createdAfter: { at }, createdBefore: { spanBack: '1 day' } };
  const within = { intervalStart: { at }, intervalEnd: { at } };
  const order = { orderBy: 'created_at', position: null } as const;
  await listRuns(sql, { ...request, ...bounded, ...within, ...order, statuses });
}

async function composeTenants(load: Load, sql: Sql, database: Sql): Promise<void> {
  const secrets = await load('tenants/sealed-secrets.ts');
  const columns = new Set<unknown>();
  const answering: Sql = {
    async query<Row extends object>(text: string, values?: readonly unknown[]) {
      const rows = await database.query<Row>(text, values);
      return text.includes('pg_description')
        ? rows
        : ([{ row: '', identity: '', box: '' }] as never);
    },
  };
  for (const sealed of await secrets.listSealedSecrets(answering)) {
    columns.add(sealed.at.column);
    await secrets.replaceSealedSecrets(sql, sealed, sealed.box);
  }
  if (columns.size === 0) throw new Error('no column has encrypted values');

  const rows = await load('tenants/tenant-rows.ts');
  const { listExportUsage } = await load('tenants/usage.ts');
  for (const reach of reaches) await listExportUsage(sql, reach, null, page);
  const { listStatedMonth } = await load('intervals/stated-records.ts');
  for (const reach of reaches) await listStatedMonth(sql, reach, '2024-03-01', 1);
  const tenant = { organizationId: id, teamId: null };
  await rows.deleteExports(sql, tenant as never, [id]);
  await rows.deleteTenant(sql, tenant as never);
  await rows.deleteStragglers(sql, id);

  const { setDisabled, setName } = await load('tenants/tenants.ts');
  for (const teamId of [1, null]) {
    await setDisabled(sql, { organizationId: id, teamId }, true);
    await setName(sql, { organizationId: id, teamId }, '');
  }

  const { findOwnPlugins } = await load('transformations/plugins.ts');
  for (const withSource of [true, false]) await findOwnPlugins(sql, id, [], withSource);
  const { findTransformationConfig } = await load('transformations/transformation-configs.ts');
  for (const lock of ['for update', ''] as const) await findTransformationConfig(sql, 1, 1, lock);
}
