import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import autocannon from 'autocannon';
import fastify from 'fastify';
import { buildApi } from '../src/api/build-api.ts';
import { hashApiKey } from '../src/security/api-keys.ts';
import { recordActivity } from '../src/store/activity.ts';
import { findPresentedKey } from '../src/store/api-keys.ts';
import {
  findBatchExport,
  insertBatchExport,
  listBatchExports,
} from '../src/store/batch-exports.ts';
import { openDatabase } from '../src/store/database.ts';
import { findLatestRuns } from '../src/store/latest-runs.ts';
import { readNow } from '../src/store/ticks.ts';
import { exportBody } from '../test/support/batch-export-bodies.ts';
import { createTenant } from '../test/support/tenants.ts';
import { testApiOptions } from '../test/support/test-api-options.ts';

/**
 * Requests a second of list, retrieve and create at 50 connections, beside a bare Fastify route
 * that asks the same SQL, in one run. The database is filled: give it one of its own,
 * migrated.
 *
 *   npm run bench:api -- --database postgres://… [--seconds 5]
 */
const { values } = parseArgs({
  options: { database: { type: 'string' }, seconds: { type: 'string', default: '5' } },
});
if (values.database === undefined) throw new Error('--database names the database to measure on');

const db = openDatabase({
  connectionString: values.database,
  applicationName: 'bench-api',
  maxConnections: 20,
  onError: () => {},
});
const tenant = await createTenant(db);
const teamId = tenant.projectIds[0];
const reach = { organizationId: tenant.organizationId, teamId };
const rateLimit = { perMinute: 1_000_000_000, perHour: 2_000_000_000 };

const api = await buildApi(testApiOptions(db, values.database, { rateLimit }));
const exports = `/api/projects/${teamId}/batch_exports`;
const created = await api.inject({
  method: 'POST',
  url: exports,
  headers: { authorization: `Bearer ${tenant.key}` },
  payload: exportBody(),
});
const id = String(created.json().id);
const sample = await findBatchExport(db, reach, id);
if (!sample) throw new Error('the export to measure with was not made');

const bare = fastify();
const latestOf = (ids: readonly string[]) => findLatestRuns(db, ids, 10);
bare.addHook('onRequest', async () => {
  await findPresentedKey(db, hashApiKey(tenant.key), teamId);
});
bare.get('/list', async () => {
  const page = await listBatchExports(db, reach, { limit: 10, offset: 0 });
  await latestOf(page.results.map((found) => found.id));
  return page;
});
bare.get('/one', async () => {
  const found = await findBatchExport(db, reach, id);
  await latestOf([id]);
  return found;
});
bare.post('/create', async () => {
  const made = await db.transaction(async (tx) => {
    await readNow(tx);
    const inserted = await insertBatchExport(tx, { ...sample, id: randomUUID() });
    await recordActivity(tx, {
      organizationId: reach.organizationId,
      teamId,
      subjectType: 'batch_export',
      subjectId: inserted.id,
      action: 'created',
      keyId: null,
      changes: [],
    });
    return inserted;
  });
  await latestOf([made.id]);
  return made;
});

const apiUrl = await api.listen({ port: 0, host: '127.0.0.1' });
const bareUrl = await bare.listen({ port: 0, host: '127.0.0.1' });

async function measure(url: string, method: 'GET' | 'POST') {
  const result = await autocannon({
    url,
    method,
    connections: 50,
    duration: Number(values.seconds),
    headers: { authorization: `Bearer ${tenant.key}`, 'content-type': 'application/json' },
    ...(method === 'POST' ? { body: JSON.stringify(exportBody()) } : {}),
  });
  if (result.non2xx > 0) throw new Error(`${url}: ${result.non2xx} answers were not 2xx`);
  return { perSecond: result.requests.average, p99: result.latency.p99 };
}

let least = Number.POSITIVE_INFINITY;
for (const [what, method, path, barePath] of [
  ['list', 'GET', `${exports}?limit=10`, '/list'],
  ['retrieve', 'GET', `${exports}/${id}`, '/one'],
  ['create', 'POST', exports, '/create'],
] as const) {
  await measure(apiUrl + path, method);
  const beside = await measure(bareUrl + barePath, method);
  const ours = await measure(apiUrl + path, method);
  const share = ours.perSecond / beside.perSecond;
  least = Math.min(least, share);
  process.stdout.write(
    `${what.padEnd(9)} ${ours.perSecond.toFixed(0).padStart(6)}/s p99 ${ours.p99} ms; bare ${beside.perSecond.toFixed(0).padStart(6)}/s p99 ${beside.p99} ms; ${share.toFixed(2)}×\n`,
  );
}
await bare.close();
await api.close();
await db.close();
process.exitCode = least >= 0.8 ? 0 : 1;
