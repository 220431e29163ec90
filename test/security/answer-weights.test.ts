import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiUnderTest, startApiUnderTest } from '../support/api-under-test.ts';
import { exportBody, s3 } from '../support/batch-export-bodies.ts';
import { fillPath, type Operation, readDocument } from '../support/openapi.ts';
import { createTenant } from '../support/tenants.ts';

/** Every operation that reads, with the largest objects that the limits allow and the largest page. */

const mebibyte = 2 ** 20;
/** A page ends after the row that exceeds 8 MiB. */
const maxAnswer = 10 * mebibyte;

/**
 * What of an operation's answer is made large here. A new operation that reads needs a row: say which stored
 * objects make its answer large, or that it has a fixed size.
 */
const rows: Readonly<Record<string, 'exports' | 'runs' | 'logs' | 'steps' | 'activity'>> = {
  listBatchExports: 'exports',
  retrieveBatchExport: 'exports',
  listActivity: 'activity',
  listBatchExportRuns: 'runs',
  retrieveBatchExportRun: 'runs',
  listBatchExportLogs: 'logs',
  listBatchExportRunLogs: 'logs',
  tailBatchExportRunLogs: 'logs',
  listTransformationConfigs: 'steps',
  retrieveTransformationConfig: 'steps',
  retrieveTransformationConfigFrontend: 'steps',
  listPlugins: 'steps',
  retrievePlugin: 'steps',
};

let api: ApiUnderTest;
let ids: Readonly<Record<string, string | number>>;

beforeAll(async () => {
  api = await startApiUnderTest();
  const { client, project, tenant, db } = api;
  const organization = `/api/organizations/${tenant.organizationId}`;
  const names = Array.from({ length: 100 }, (_, n) => `${n}${'"'.repeat(190)}`);
  const dsl_query = `select ${Array.from({ length: 300 }, (_, n) => `'${'"'.repeat(100)}' as c${n}`).join(', ')} from events`;
  const destination = s3({ include_events: names, exclude_events: names });
  const made = await client.post(
    `${project}/batch_exports`,
    exportBody({ destination, dsl_query }),
  );
  expect(made.status, made.text).toBe(201);
  const { id } = made.body;
  await db.query(
    `insert into batch_exports select (jsonb_populate_record(e, jsonb_build_object('id', gen_random_uuid()))).*
       from batch_exports e, generate_series(1, 999) where e.id = $1`,
    [id],
  );
  await db.query(
    `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, latest_error, finished_at)
     select $1, team_id, 'Failed', now() - n * interval '1 hour', now() - (n - 1) * interval '1 hour', 'query.invalid: ' || repeat('"', 1000), now()
       from batch_exports, generate_series(1, 1000) n where id = $1`,
    [id],
  );
  const [run] = await db.query<{ id: string }>('select id from runs where export_id = $1 limit 1', [
    id,
  ]);
  await db.query(
    `insert into log_entries (team_id, export_id, run_id, level, message)
     select team_id, export_id, id, 'INFO', repeat('"', 1100) from runs, generate_series(1, 1000) where id = $1`,
    [run?.id],
  );
  await db.query(
    `insert into activity (organization_id, subject_type, subject_id, action, changes)
     select $1, 'batch_export', $2, 'updated', jsonb_build_array(jsonb_build_object('field', 'x', 'before', null, 'after', repeat('"', 4000)))
       from generate_series(1, 1000)`,
    [tenant.organizationId, id],
  );
  const config_schema = Array.from({ length: 60 }, (_, n) => ({
    key: `k${n}`,
    hint: '"'.repeat(450),
  }));
  const source = `function processEvent(event) { return event; } // ${'"'.repeat(400_000)}`;
  const plugin = await client.post(`${organization}/plugins`, { name: 'p', source, config_schema });
  expect(plugin.status, plugin.text).toBe(201);
  const config = Object.fromEntries(config_schema.map(({ key }) => [key, '"'.repeat(450)]));
  const steps = `${project}/pipeline_transformation_configs`;
  const step = await client.post(steps, { plugin: plugin.body.id, order: 1, config });
  expect(step.status, step.text).toBe(201);
  await db.query(
    `insert into pipeline_transformation_configs (team_id, plugin, "order", config, version)
     select team_id, plugin, n, config, version from pipeline_transformation_configs, generate_series(2, 1000) n where id = $1`,
    [step.body.id],
  );
  const [projectId = 0] = tenant.projectIds;
  ids = {
    project_id: projectId,
    organization_id: tenant.organizationId,
    batch_export_id: id,
    run_id: run?.id ?? '',
    step: step.body.id,
    plugin: plugin.body.id,
  };
}, 120_000);
afterAll(() => api?.stop());

const isLarge = ({ id }: Operation) => rows[id.replace(/OfOrganization$/, '')] !== undefined;

/** The id that a path's last parameter names, by its collection. */
function addressOf({ path, id: name }: Operation): string {
  const own = /pipeline_transformation_configs/.test(path)
    ? 'step'
    : /plugins/.test(path)
      ? 'plugin'
      : 'batch_export_id';
  const id = /runs\/\{id\}/.test(path) ? ids.run_id : ids[own];
  const filled = fillPath(path, { ...ids, id: id ?? '' });
  return name.startsWith('list') || name.startsWith('tail') ? `${filled}?limit=1000` : filled;
}

test('every operation that reads a resource has a row here, or an answer of a bounded number of rows', async () => {
  const { operations } = await readDocument(api.client);
  const reading = operations.filter(({ method, scope }) => method === 'GET' && scope !== null);
  const known = [...Object.keys(rows), ...bounded];
  const missing = reading
    .map(({ id }) => id.replace(/OfOrganization$/, ''))
    .filter((id) => !known.includes(id));
  expect([...new Set(missing)]).toEqual([]);
});

/** Each row of theirs has a size without texts of a tenant beyond names, and they have at most 1,000 rows. */
const bounded = [
  'retrieveMe',
  'retrieveCapabilities',
  'countBatchExports',
  'previewSchedule',
  'previewRows',
  'retrieveCoverage',
  'retrieveThroughput',
  'listProjects',
  'listNotificationTargets',
  'retrieveNotificationTarget',
  'listNotificationDeliveries',
  'listBackfills',
  'retrieveBackfill',
  'listBatchExportRunFiles',
];

test('the largest answers are bounded, cost bounded memory, and others are answered meanwhile', async () => {
  const { operations } = await readDocument(api.client);
  const other = await createTenant(api.db);
  const others = api.client.withKey(other.key);
  for (const operation of operations.filter((one) => one.method === 'GET' && isLarge(one))) {
    const before = process.memoryUsage().rss;
    const large = [0, 1, 2].map(() => api.client.get(addressOf(operation)));
    const small = await others.get(`/api/projects/${other.projectIds[0]}/batch_exports`);
    expect(small.status).toBe(200);
    for (const { status, text } of await Promise.all(large)) {
      expect([operation.id, status, text.slice(0, status === 200 ? 0 : 200)]).toEqual([
        operation.id,
        200,
        '',
      ]);
      expect(text.length, operation.id).toBeLessThan(maxAnswer);
    }
    expect(process.memoryUsage().rss - before, operation.id).toBeLessThan(400 * mebibyte);
  }
}, 300_000);
