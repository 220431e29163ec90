import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiUnderTest, startApiUnderTest } from '../support/api-under-test.ts';
import { readDocument } from '../support/openapi.ts';
import { onOrders, type ReadmeCall, readReadmeCalls } from '../support/readme-calls.ts';

/**
 * The clients that two generators make of the OpenAPI document compile, and do the README's main job. Nightly:
 * the generators need TypeScript 5, so they are installed in a folder of their own, from the registry of npm.
 */

const tools = [
  'typescript@5.9.3',
  '@types/node@20.19.43',
  'openapi-typescript@7.13.0',
  'openapi-fetch@0.17.0',
  '@hey-api/openapi-ts@0.95.0',
];

const run = promisify(execFile);
let api: ApiUnderTest;
let folder: string;
let calls: readonly ReadmeCall[];

beforeAll(async () => {
  api = await startApiUnderTest();
  await api.shop.open();
  folder = await mkdtemp(path.join(tmpdir(), 'sluice-generated-'));
  const document = await readDocument(api.client);
  calls = await readReadmeCalls(document);
  await writeFile(path.join(folder, 'openapi.json'), JSON.stringify(document.raw));
  await writeFile(path.join(folder, 'package.json'), '{"private":true,"type":"module"}');
  await writeFile(
    path.join(folder, 'tsconfig.json'),
    JSON.stringify({
      compilerOptions: {
        strict: true,
        noUncheckedIndexedAccess: true,
        target: 'es2022',
        lib: ['es2023', 'dom', 'dom.iterable'],
        module: 'nodenext',
        skipLibCheck: true,
        outDir: 'out',
      },
    }),
  );
  const options = ['--no-audit', '--no-fund', '--ignore-scripts', '--save-exact'];
  await run('npm', ['install', '--prefix', folder, ...options, ...tools]);
});
afterAll(async () => {
  await api?.stop();
  await rm(folder, { recursive: true, force: true });
});

const bin = (name: string, ...args: string[]) =>
  run(path.join(folder, 'node_modules/.bin', name), args, { cwd: folder }).catch(
    ({ stdout, stderr }: { stdout: string; stderr: string }) => {
      throw new Error(`${name}: ${stdout}${stderr}`);
    },
  );

/** The job of the README: create, backfill, read the runs and the logs. */
async function runJob(program: string): Promise<void> {
  await writeFile(path.join(folder, 'program.ts'), program);
  await bin('tsc', '-p', '.');
  const args = [api.baseUrl, api.tenant.key, String(api.tenant.projectIds[0])];
  const { stdout } = await run(process.execPath, [path.join(folder, 'out/program.js'), ...args]);
  const { id, backfill, runs, logs } = JSON.parse(stdout);
  const stored = await api.client.get(`${api.project}/batch_exports/${id}`);
  const made = { name: 'Events, hourly', model: 'orders', destination: { type: 'S3' } };
  expect(stored.body).toMatchObject(made);
  expect(backfill).toMatch(/^[0-9a-f-]{36}$/);
  expect([Array.isArray(runs), Array.isArray(logs)]).toEqual([true, true]);
}

const [create, backfill] = [() => onOrders(calls[0]?.json), () => calls[1]?.json ?? ''];

test('openapi-typescript 7 with openapi-fetch', async () => {
  await bin('openapi-typescript', 'openapi.json', '-o', 'api.ts');
  await runJob(`
    import createClient from 'openapi-fetch';
    import type { paths } from './api.js';
    const [baseUrl, key, project_id = ''] = process.argv.slice(2);
    const client = createClient<paths>({ baseUrl: baseUrl ?? '', headers: { authorization: \`Bearer \${key}\` } });
    const created = await client.POST('/api/projects/{project_id}/batch_exports', { params: { path: { project_id } }, body: ${create()} });
    if (!created.data) throw new Error(created.error.detail);
    const { id } = created.data;
    const began = await client.POST('/api/projects/{project_id}/batch_exports/{id}/backfill', {
      params: { path: { project_id, id } }, body: ${backfill()},
    });
    if (!began.data || 'dry_run' in began.data) throw new Error('no backfill');
    const path = { project_id, batch_export_id: id };
    const runs = await client.GET('/api/projects/{project_id}/batch_exports/{batch_export_id}/runs', { params: { path } });
    const logs = await client.GET('/api/projects/{project_id}/batch_exports/{batch_export_id}/logs', { params: { path } });
    const status: 'Completed' | string | undefined = runs.data?.results[0]?.status;
    console.log(JSON.stringify({ id, backfill: began.data.backfill_id, status, runs: runs.data?.results, logs: logs.data?.results }));
  `);
});

test('hey-api', async () => {
  const config = {
    input: 'openapi.json',
    output: { path: 'hey', importFileExtension: '.js' },
    plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
  };
  await writeFile(
    path.join(folder, 'openapi-ts.config.mjs'),
    `export default ${JSON.stringify(config)};`,
  );
  await bin('openapi-ts');
  await runJob(`
    import { client } from './hey/client.gen.js';
    import { backfillBatchExport, createBatchExport, listBatchExportLogs, listBatchExportRuns } from './hey/sdk.gen.js';
    const [baseUrl, key, project_id = ''] = process.argv.slice(2);
    client.setConfig({ baseUrl: baseUrl ?? '', auth: key ?? '' });
    const created = await createBatchExport({ path: { project_id }, body: ${create()} });
    if (!created.data) throw new Error(JSON.stringify(created.error));
    const { id } = created.data;
    const began = await backfillBatchExport({ path: { project_id, id }, body: ${backfill()} });
    if (!began.data || 'dry_run' in began.data) throw new Error('no backfill');
    const path = { project_id, batch_export_id: id };
    const runs = await listBatchExportRuns({ path });
    const logs = await listBatchExportLogs({ path });
    const status: 'Completed' | string | undefined = runs.data?.results[0]?.status;
    console.log(JSON.stringify({ id, backfill: began.data.backfill_id, status, runs: runs.data?.results, logs: logs.data?.results }));
  `);
});
