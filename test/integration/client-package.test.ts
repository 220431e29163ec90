import { folderOfTests } from '../support/own-folder.ts';
import { execFile, spawnSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { readFileSync, rmSync, statSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { useApi } from '../support/api-under-test.ts';
import { readDocument } from '../support/openapi.ts';
import { projectRoot } from '../support/processes.ts';
import { onOrders, readReadmeCalls } from '../support/readme-calls.ts';
import { listenInTest } from '../support/use-stage.ts';

const run = promisify(execFile);
const source = path.join(projectRoot, 'client');
const folder = folderOfTests();
let packed: readonly string[];
const api = useApi();

/** Packs the package as a release would, and installs it as a user would. */
beforeAll(async () => {
  await api.shop.open();
  const pack = ['pack', '--json', '--pack-destination', folder];
  const { stdout } = await run('npm', pack, { cwd: source });
  const [tarball] = JSON.parse(stdout.slice(stdout.indexOf('[')));
  packed = tarball.files.map((file: { path: string }) => file.path);
  await writeFile(path.join(folder, 'package.json'), '{"private":true,"type":"module"}');
  const options = ['--offline', '--no-audit', '--no-fund', '--ignore-scripts', '--prefix', folder];
  await run('npm', ['install', ...options, path.join(folder, tarball.filename)]);
  await writeFile(
    path.join(folder, 'tsconfig.json'),
    JSON.stringify({
      compilerOptions: {
        ...{ strict: true, noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true },
        ...{ target: 'es2022', module: 'nodenext', types: [], outDir: 'out' },
        lib: ['es2023', 'dom', 'dom.iterable'],
      },
      files: ['program.ts'],
    }),
  );
});

/** What the compiler says. */
async function compile(program: string): Promise<string> {
  await writeFile(path.join(folder, 'program.ts'), program);
  const compiler = path.join(projectRoot, 'node_modules/typescript/bin/tsc');
  const failed = (error: { stdout?: string }) => ({ stdout: error.stdout || String(error) });
  return (await run(process.execPath, [compiler, '-p', folder]).catch(failed)).stdout;
}

const head = `
  import { createClient } from 'sluice-client';
  declare const process: { readonly argv: readonly string[] };
  const [, , url = '', key = '', project_id = ''] = process.argv;
  const sluice = createClient({ url, key });
  const path = { project_id };
`;

test('the tarball holds the client and its types, and no more', async () => {
  const files = ['README.md', 'index.d.ts', 'index.js', 'package.json', 'schema.d.ts'];
  expect([...packed].sort()).toEqual(files);
  const versionOf = async (file: string) => JSON.parse(await readFile(file, 'utf8')).version;
  const own = await versionOf(path.join(source, 'package.json'));
  expect(own).toBe(await versionOf(path.join(projectRoot, 'package.json')));
});

test('the example of its README compiles', async () => {
  const readme = await readFile(path.join(source, 'README.md'), 'utf8');
  const [, example = ''] = /```ts\n([\s\S]*?)```/.exec(readme) ?? [];
  const environment = 'declare const process: { readonly env: Record<string, string> };\n';
  const console = 'declare const console: { log(...values: unknown[]): void };\n';
  expect(example).toContain('createClient');
  expect(await compile(environment + console + example)).toBe('');
  const mistaken = example.replace('limit: 10', 'limits: 10');
  expect(await compile(environment + console + mistaken)).toContain('limits');
});

test("it compiles, and does the README's main job", async () => {
  const calls = await readReadmeCalls(await readDocument(api.client));
  const program = `${head}
    const created = await sluice.POST('/api/projects/{project_id}/batch_exports', { params: { path }, body: ${onOrders(calls[0]?.json)} });
    if (created.error) throw new Error(created.error.detail);
    const { id } = created.data;
    const began = await sluice.POST('/api/projects/{project_id}/batch_exports/{id}/backfill', {
      params: { path: { project_id, id } }, body: ${calls[1]?.json},
    });
    if (began.error) throw new Error(began.error.detail);
    const backfill = 'dry_run' in began.data ? '' : began.data.backfill_id;
    const at = { project_id, batch_export_id: id };
    const runs = await sluice.GET('/api/projects/{project_id}/batch_exports/{batch_export_id}/runs', {
      params: { path: at, query: { status: ['Completed', 'Starting'], limit: 5 } },
    });
    const rows: number | null | undefined = runs.data?.results[0]?.records_completed;
    const removed = await sluice.DELETE('/api/projects/{project_id}/batch_exports/{id}', { params: { path: { project_id, id } } });
    const missing = await sluice.GET('/api/projects/{project_id}/batch_exports/{id}', { params: { path: { project_id, id } } });
    console.log(JSON.stringify({ id, backfill, rows, runs: runs.data?.results.length, removed: removed.response.status, missing: missing.error?.code }));
  `;
  expect(await compile(program)).toBe('');
  const args = [api.baseUrl, api.tenant.key, String(api.tenant.projectIds[0])];
  const { stdout } = await run(process.execPath, [path.join(folder, 'out/program.js'), ...args]);
  expect(JSON.parse(stdout)).toMatchObject({
    backfill: expect.stringMatching(/^[0-9a-f-]{36}$/),
    runs: expect.any(Number),
    removed: 204,
    missing: 'not_found',
  });
});

test('calls that the API would refuse do not compile', async () => {
  const wrong = [
    `sluice.GET('/api/projects/{project_id}/batch_exports', { params: { path, query: { limit: 'x' } } })`,
    `sluice.GET('/api/projects/{project_id}/batch_exports', {})`,
    `sluice.POST('/api/projects/{project_id}/batch_exports', { params: { path } })`,
    `sluice.GET('/api/exports', { params: { path } })`,
  ];
  const calls = wrong.map((call, n) => `export const answer${n} = await ${call};`);
  const lines = head.split('\n').length;
  const said = await compile(`${head}\n${calls.join('\n')}`);
  const found = [...said.matchAll(/program\.ts\((\d+),/g)].map(([, line]) => Number(line) - lines);
  expect([...new Set(found)], said).toEqual([1, 2, 3, 4]);
});

test('it waits as the service asks, sends a POST with one key, and names an answer that is not of Sluice', async () => {
  const keys: unknown[] = [];
  const server = createServer((request, response) => {
    keys.push(request.headers['idempotency-key']);
    if (keys.length < 3) response.writeHead(503, { 'retry-after': '0' }).end();
    else response.writeHead(502).end('<html>');
  });
  const url = `http://127.0.0.1:${await listenInTest(server)}/`;
  const { createClient } = await import(
    pathToFileURL(path.join(folder, 'node_modules/sluice-client/index.js')).href
  );
  const asked = { params: { path: { id: 'a/b' } }, body: {} };
  const answer = await createClient({ url, key: 'slc_x' }).POST('/x/{id}', asked);
  expect(keys).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/), keys[0], keys[0]]);
  expect(answer.error.detail).toContain(`status 502). Check the address: ${url}x/a%2Fb`);
});

const written = path.join(projectRoot, 'dist/api-schema.d.ts');

function generate() {
  const script = path.join(projectRoot, 'scripts/generate-api-types.mjs');
  const { status, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8' });
  return { status, stderr };
}

test('a build without the types of the API writes them, and the next one keeps them', () => {
  rmSync(written, { force: true });
  expect(generate()).toEqual({ status: 0, stderr: '' });
  expect(readFileSync(written, 'utf8')).toContain('readonly latest_runs: readonly components');
  const { mtimeMs } = statSync(written);
  expect(generate()).toEqual({ status: 0, stderr: '' });
  expect(statSync(written).mtimeMs).toBe(mtimeMs);
});
