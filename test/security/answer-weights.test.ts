import { beforeAll, expect, test } from 'vitest';
import { useApi } from '../support/api-under-test.ts';
import { exportBody, s3 } from '../support/batch-export-bodies.ts';
import { fillPath, type Operation, readDocument } from '../support/openapi.ts';
import { createTenant } from '../support/tenants.ts';

/** Every operation, with the largest objects that the limits allow and the largest page, and with bodies full of faults. */

const mebibyte = 2 ** 20;
/** A page ends before the row that exceeds 1 MiB. One object may be larger. */
const maxAnswer = 10 * mebibyte;

/**
 * What of an operation's answer is made large here. A new operation that reads needs a row: say which stored
 * objects make its answer large, or that it has a fixed size.
 */
const rows: Readonly<Record<string, 'exports' | 'runs' | 'logs' | 'steps' | 'activity'>> = {
  listBatchExports: 'exports',
  summarizeBatchExports: 'exports',
  retrieveBatchExport: 'exports',
  listActivity: 'activity',
  listBatchExportRuns: 'runs',
  retrieveBatchExportRun: 'runs',
  listBatchExportLogs: 'logs',
  listBatchExportRunLogs: 'logs',
  listTransformationConfigs: 'steps',
  retrieveTransformationConfig: 'steps',
  retrieveTransformationConfigFrontend: 'steps',
  listPlugins: 'steps',
  listPluginsOfProject: 'steps',
  retrievePlugin: 'steps',
};

const largeSchema = Array.from({ length: 60 }, (_, n) => ({ key: `k${n}`, hint: '"'.repeat(450) }));
const largeSource = `export function processEvent(event) { return event; } // ${'"'.repeat(400_000)}`;
const largeConfig = Object.fromEntries(largeSchema.map(({ key }) => [key, '"'.repeat(450)]));

let ids: Readonly<Record<string, string | number>>;

const api = useApi();
beforeAll(async () => {
  const { client, project, tenant, db } = api;
  const organization = `/api/organizations/${tenant.organizationId}`;
  const names = Array.from({ length: 100 }, (_, n) => `${n}${'"'.repeat(140)}`);
  const dsl_query = `select ${Array.from({ length: 80 }, (_, n) => `'${'"'.repeat(100)}' as c${n}`).join(', ')} from events`;
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
     select team_id, export_id, id, 'INFO', n || repeat('"', 1100) from runs, generate_series(1, 1000) n where id = $1`,
    [run?.id],
  );
  await db.query(
    `insert into activity (organization_id, subject_type, subject_id, action, changes)
     select $1, 'batch_export', $2, 'updated', jsonb_build_array(jsonb_build_object('field', 'x', 'before', null, 'after', repeat('"', 4000)))
       from generate_series(1, 1000)`,
    [tenant.organizationId, id],
  );
  const plugin = await client.post(`${organization}/plugins`, {
    ...{ name: 'p', source: largeSource, config_schema: largeSchema },
  });
  expect(plugin.status, plugin.text).toBe(201);
  const config = largeConfig;
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

/** The operations of an organization and of PostHog's paths answer as those of a project. */
const nameOf = ({ id }: Operation) => id.replace(/Of(Organization|Environment)$/, '');
const isLarge = (operation: Operation) => rows[nameOf(operation)] !== undefined;

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
  const missing = reading.map(nameOf).filter((id) => !known.includes(id));
  expect([...new Set(missing)]).toEqual([]);
});

/** Each row of theirs has a size without texts of a tenant beyond names, and they have at most 1,000 rows. */
const bounded = [
  'retrieveMe',
  'retrieveOperatorMe',
  'retrieveCapabilities',
  'countBatchExports',
  'previewSchedule',
  'previewRows',
  'retrieveCoverage',
  'listProjects',
  'listNotificationTargets',
  'retrieveNotificationTarget',
  'listNotificationDeliveries',
  'listBackfills',
  'retrieveBackfill',
  'listBatchExportRunFiles',
  // At most 10 statements or 1,000 exports.
  ...['retrieveErasure', 'retrieveDeliveryRecord'],
  // Rows and bytes of a month by export; steps of a test; statements and their heads, without their documents.
  ...['listUsage', 'listExportUsage', 'listTestSteps', 'listStatements', 'retrieveStatementHead'],
  // It has at most 4,000 intervals, each with digests and instants.
  'retrieveStatement',
  // An operator's; a row of a cause or an export has one error of at most 1,100 characters.
  ...['listOrganizations', 'listKeys', 'listOperatorKeys'],
  ...['listCauses', 'listAllExports'],
  'listNotificationTargetsOfInstallation',
  ...['retrieveNotificationTargetOfInstallation', 'listNotificationDeliveriesOfInstallation'],
];

/** The largest change of an operation that writes; null: its answer has no text of a tenant but names. */
const writes: Readonly<Record<string, (() => object) | null>> = {
  updateBatchExport: () => ({ name: 'b' }),
  replaceBatchExport: () => exportBody({ name: 'c' }),
  pauseBatchExport: () => ({}),
  unpauseBatchExport: () => ({}),
  createTransformationConfig: () => ({ plugin: ids.plugin, order: 1, config: largeConfig }),
  updateTransformationConfig: () => ({ order: 2 }),
  rearrangeTransformationConfigs: () => ({ orders: { [String(ids.step)]: 3 } }),
  installPlugin: () => ({ name: 'q', source: largeSource, config_schema: largeSchema }),
  updatePlugin: () => ({ name: 'r' }),
  tryRows: () => ({
    trace: true,
    team_id: ids.project_id,
    configs: Array.from({ length: 50 }, () => ({ plugin: 18, config: { max_length: '1000' } })),
    rows: Array.from({ length: 100 }, () => ({ event: 'a', properties: { a: '"'.repeat(150) } })),
  }),
  ...Object.fromEntries(
    [
      // The project has as many exports as it may.
      ...['createBatchExport', 'deleteBatchExport', 'testDestination', 'testNewDestination'],
      ...[
        // Its answer is about as long as the query of the request.
        'retrieveNewQuery',
        'backfillBatchExport',
        'cancelBackfill',
        'acceptCoverage',
      ],
      ...['cancelBatchExportRun', 'retryBatchExportRun', 'createNotificationTarget'],
      ...['linkBatchExportRunFile', 'createBackfill', 'runBatchExportNow', 'createStatement'],
      ...['createAcknowledgement', 'runTestStep', 'runTestStepNew'],
      ...['updateNotificationTarget', 'deleteNotificationTarget', 'rotateNotificationSecret'],
      ...['testNotificationTarget', 'deleteTransformationConfig'],
      'startTransformationJob',
    ].map((id) => [id, null]),
  ),
};

test('every operation that writes has a row here', async () => {
  const { operations } = await readDocument(api.client);
  // What an operator changes has names and no text of a tenant.
  const writing = operations.filter(
    ({ method, scope, path }) =>
      method !== 'GET' && scope !== null && !path.startsWith('/api/admin/'),
  );
  expect([...new Set(writing.map(nameOf))].toSorted()).toEqual(Object.keys(writes).toSorted());
});

const send = (operation: Operation, raw: string) =>
  api.client.send(operation.method, addressOf(operation), { raw });

test('the largest answers to changes are bounded, and others are answered meanwhile', async () => {
  const { operations } = await readDocument(api.client);
  const other = await createTenant(api.db);
  const others = api.client.withKey(other.key);
  for (const operation of operations) {
    const body = operation.method === 'GET' ? null : writes[nameOf(operation)]?.();
    if (!body) continue;
    const before = process.memoryUsage().rss;
    const changing = send(operation, JSON.stringify(body));
    expect((await others.get(`/api/projects/${other.projectIds[0]}/batch_exports`)).status).toBe(
      200,
    );
    const { status, text } = await changing;
    const shown = text.slice(0, status < 300 ? 0 : 300);
    expect([operation.id, Math.floor(status / 100), shown]).toEqual([operation.id, 2, '']);
    expect(text.length, operation.id).toBeLessThan(maxAnswer);
    expect(process.memoryUsage().rss - before, operation.id).toBeLessThan(400 * mebibyte);
  }
}, 300_000);

/** Of at most 1 MiB each: fields that do not exist, one with a long name, and elements of the wrong type. */
const faulty: readonly string[] = [
  `{${Array.from({ length: 50_000 }, (_, n) => `"f${n}":1`).join()}}`,
  `{"${'x'.repeat(900_000)}":1}`,
  `{"destination":{"type":"S3","config":{"include_events":[${'{"a":1},'.repeat(100_000)}1]}},"filters":[${'{"y":1},'.repeat(100)}1]}`,
  `{"orders":{${Array.from({ length: 50_000 }, (_, n) => `"${n + 5_000_000}":1`).join()}}}`,
];
/** An answer names some of many faults. */
const maxFaultAnswer = 256 * 1024;

test('what is wrong with a large body is said in few bytes', async () => {
  const { operations } = await readDocument(api.client);
  // Those of an organization are the same.
  const writing = operations.filter(
    ({ id, body, scope }) =>
      body !== undefined && scope !== null && !/Of(Organization|Environment)$/.test(id),
  );
  for (const operation of writing) {
    for (const [turn, raw] of faulty.entries()) {
      const { status, text } = await send(operation, raw);
      expect(status, `${operation.id} ${turn}: ${text.slice(0, 200)}`).toBeLessThan(500);
      expect(text.length, `${operation.id} ${turn}`).toBeLessThan(maxFaultAnswer);
    }
  }
}, 300_000);

test('the largest answers are bounded, cost bounded memory, and others are answered meanwhile', async () => {
  const { operations } = await readDocument(api.client);
  const other = await createTenant(api.db);
  const others = api.client.withKey(other.key);
  for (const operation of operations.filter((one) => one.method === 'GET' && isLarge(one))) {
    const before = process.memoryUsage().rss;
    const large = [0, 1].map(() => api.client.get(addressOf(operation)));
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

/** A page, and its one item that may be larger. */
const maxPage = 1.1 * mebibyte;

/** A page of each list that is cut, and what its items are known by. */
const lists: Readonly<Record<string, (item: Item) => unknown>> = {
  'batch_exports/?limit=100': ({ id }) => id,
  'batch_exports/{batch_export_id}/runs/?limit=1000': ({ id }) => id,
  'batch_exports/{batch_export_id}/logs/?limit=1000': ({ message }) =>
    String(message).split('"')[0],
  'batch_exports/{batch_export_id}/activity/?limit=1000': ({ id }) => id,
  'pipeline_transformation_configs/?limit=100': ({ id }) => id,
};
type Item = Readonly<Record<string, unknown>>;

/** Follows the links of a list in one direction, and checks the size of each page. */
async function follow(from: string, direction: 'next' | 'previous', idOf: (item: Item) => unknown) {
  const pages: unknown[][] = [];
  for (let address: string | null = from; address !== null; ) {
    const { status, text, body } = await api.client.get(address);
    expect(status, text.slice(0, 200)).toBe(200);
    expect(text.length).toBeLessThan(maxPage);
    const { results, ...links } = body as unknown as {
      results: Item[];
      next: string | null;
      previous: string | null;
    };
    pages.push(results.map(idOf));
    const link = links[direction];
    address = link === null ? null : link.slice(link.indexOf('/api/'));
    if (address === null) return { pages, from };
    from = address;
  }
  return { pages, from };
}

test.each(Object.entries(lists))(
  'pages of %s that are cut by their size lose no item and repeat none',
  async (path, idOf) => {
    const [folder = '', query] = path.split('?');
    const address = `${api.project}/${fillPath(folder, ids)}?${query}`;
    const forth = await follow(address, 'next', idOf);
    expect(forth.pages.length).toBeGreaterThan(1);
    const all = forth.pages.flat();
    expect([all.length, new Set(all).size]).toEqual([all.length, all.length]);
    expect(all.length).toBeGreaterThanOrEqual(1_000);
    if (!forth.from.includes('cursor=')) return;
    // Back again from the last page.
    const back = await follow(forth.from, 'previous', idOf);
    expect(back.pages.length).toBeGreaterThan(1);
    expect(back.pages.toReversed().flat()).toEqual(all);
  },
  300_000,
);
