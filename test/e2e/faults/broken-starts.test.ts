import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase } from '../../support/database.ts';
import { projectRoot, startBundled, startProcess, startSluice } from '../../support/processes.ts';
import { useStage } from '../../support/use-stage.ts';

let folder: string;
let busy: Server;
let busyPort: string;

const database = useStage(createTestDatabase);
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'sluice-broken-start-'));
  await writeFile(path.join(folder, 'file'), '');
  await mkdir(path.join(folder, 'kept'));
  await writeFile(path.join(folder, 'kept/encryption-key'), 'damaged');
  busy = createServer();
  await new Promise<void>((done) => busy.listen(0, '127.0.0.1', done));
  const address = busy.address();
  busyPort = String(typeof address === 'object' ? address?.port : '');
});
afterAll(async () => {
  busy?.close();
  await rm(folder, { recursive: true, force: true });
});

const goodKey = `test:${Buffer.alloc(32, 7).toString('base64')}`;

/** Starts a program that is expected to end. @returns what it printed that is not a log line */
async function startBroken(
  program: string,
  env: Readonly<Record<string, string>>,
): Promise<{ readonly code: number | null; readonly lines: readonly string[] }> {
  const started = startBundled(`main/${program}.js`, [], {
    env: {
      REDIS_URL: '',
      PORT: '0',
      ENCRYPTION_KEYS: goodKey,
      DATABASE_URL: database.url,
      SLUICE_DATA_DIR: path.join(folder, 'data'),
      ...env,
    },
  });
  const { code } = await started.waitForExit(60_000);
  const lines = started.output().trim().split('\n');
  return { code, lines: lines.filter((line) => !line.startsWith('{')) };
}

test.each([
  ['api', 'PORT', /^sluice api: PORT: 127\.0\.0\.1:\d+ is in use by another program\. Stop/],
  ['api', 'METRICS_PORT', /^sluice api: METRICS_PORT: 127\.0\.0\.1:\d+ is in use/],
  ['worker', 'WORKER_PORT', /^sluice worker: WORKER_PORT: 127\.0\.0\.1:\d+ is in use/],
])('%s, with a taken %s: one line that names it', async (program, name, line) => {
  const { code, lines } = await startBroken(program, { [name]: busyPort });
  expect([code, lines]).toEqual([1, [expect.stringMatching(line)]]);
});

test.each([
  ['HOST of another machine', { HOST: '192.0.2.1', PORT: '8765' }, /HOST/],
  [
    'HOST without an address',
    { HOST: 'host.invalid', PORT: '8765' },
    /^sluice api: HOST: host\.invalid/,
  ],
  [
    'encryption key',
    { ENCRYPTION_KEYS: 'test:c2hvcnQ=' },
    /ENCRYPTION_KEYS: entry 1 .*openssl rand/,
  ],
  [
    'generated key',
    { ENCRYPTION_KEYS: '', SLUICE_DATA_DIR: 'kept' },
    /kept\/encryption-key: entry 1/,
  ],
  ['folder of keys', { ENCRYPTION_KEYS: '', SLUICE_DATA_DIR: 'file' }, /SLUICE_DATA_DIR: /],
  ['folder of a database', { DATABASE_URL: '', SLUICE_DATA_DIR: 'file' }, /SLUICE_DATA_DIR: /],
])('a bad %s ends the start with one line', async (_what, env, line) => {
  const { SLUICE_DATA_DIR: dir } = env as { readonly SLUICE_DATA_DIR?: string };
  const within = dir === undefined ? {} : { SLUICE_DATA_DIR: path.join(folder, dir) };
  const { code, lines } = await startBroken('api', { ...env, ...within });
  expect([code, lines]).toEqual([1, [expect.stringMatching(line)]]);
  expect(lines.join()).not.toMatch(/^ +at /m);
});

test.each([
  [
    'TMPDIR',
    { TMPDIR: '/no/such/folder' },
    /^sluice worker: TMPDIR: \/no\/such\/folder does not exist/,
  ],
  [
    'DATABASE_URL_FILE',
    { DATABASE_URL: '', DATABASE_URL_FILE: '/no/such' },
    /DATABASE_URL cannot be read: DATABASE_URL_FILE names \/no\/such/,
  ],
  ['WORKER_PORT', { WORKER_PORT: '94610' }, /WORKER_PORT must be a whole number from 0 to 65535/],
])('a worker with a bad %s ends and names it', async (_what, env, line) => {
  const { code, lines } = await startBroken('worker', env);
  expect([code, lines.join(' ')]).toEqual([1, expect.stringMatching(line)]);
  expect(lines.join()).not.toMatch(/^ +at /m);
});

test('a process that may open too few files ends with one line', async () => {
  const program = path.join(projectRoot, 'dist/main/api.js');
  const started = startProcess('sh', [
    '-c',
    'ulimit -n 64; exec "$0" "$1"',
    process.execPath,
    program,
  ]);
  expect((await started.waitForExit(60_000)).code).toBe(1);
  expect(started.output()).toMatch(
    /^sluice: this process may open too few files .*ulimit -n 1024.*\n$/,
  );
});

test('a setting that does not exist, and a folder of files that does not, are reported at the start', async () => {
  const started = startSluice('main/api.js', [], {
    env: {
      ...{ REDIS_URL: '', PORT: '0', ENCRYPTION_KEYS: goodKey, DATABASE_URL: database.url },
      ...{ RATE_LIMIT_PER_MINUT: '10', SLUICE_NONSENSE: 'x' },
      FILE_DESTINATION_ROOT: path.join(folder, 'gone'),
    },
  });
  await started.waitForLine(/^ready /, 60_000);
  const warnings = started.output().match(/"level":"warn"[^\n]*is not a setting[^\n]*/g) ?? [];
  expect(warnings.join()).toContain('Did you mean RATE_LIMIT_PER_MINUTE?');
  expect(warnings.join()).toContain('SLUICE_NONSENSE is not a setting. .env.example');
  expect(started.output()).toMatch(
    /"level":"error"[^\n]*FILE_DESTINATION_ROOT: [^\n]*\/gone does not exist\. Create the folder/,
  );
  started.kill('SIGTERM');
  expect(await started.waitForExit()).toMatchObject({ code: 0 });
});
