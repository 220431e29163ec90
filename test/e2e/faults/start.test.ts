import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import path from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { createTestDatabase } from '../../support/database.ts';
import { withClient } from '../../support/drop-database.ts';
import { findFreePort } from '../../support/free-port.ts';
import { isAlive } from '../../support/is-alive.ts';
import { atNight, casesOf, isNightly } from '../../support/nightly.ts';
import { folderOfTests } from '../../support/own-folder.ts';
import { startOwnPostgres } from '../../support/postgres-server.ts';
import {
  bundleFolder,
  projectRoot,
  startBundled,
  startProcess,
  startSluice,
  type TestProcess,
} from '../../support/processes.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

const folder = folderOfTests();
/** A port that is taken. */
let busy: Server;
let busyPort: string;
const database = useStage(createTestDatabase);
const proxy = useStage(() =>
  startTcpProxy({ target: { port: Number(new URL(database.url).port) } }),
);
beforeAll(async () => {
  await writeFile(path.join(folder, 'file'), '');
  await mkdir(path.join(folder, 'kept'));
  await writeFile(path.join(folder, 'kept/encryption-key'), 'damaged');
  busyPort = await freePort();
  busy = createServer().listen(Number(busyPort), '127.0.0.1');
});
afterAll(() => void busy?.close());

/** The database, by way of the proxy. */
function through(): string {
  const url = new URL(database.url);
  url.hostname = '127.0.0.1';
  url.port = String(proxy.port);
  return url.href;
}

const freePort = async () => String(await findFreePort());

const settings = {
  REDIS_URL: '',
  PORT: '0',
  ENCRYPTION_KEYS: `test:${Buffer.alloc(32, 7).toString('base64')}`,
};

function start(
  entry: string,
  env: Readonly<Record<string, string>>,
  startProgram = startBundled,
): TestProcess {
  return startProgram(`main/${entry}.js`, [], { env: { ...settings, ...env } });
}

const waits = /"level":"warn"[^\n]*The database at DATABASE_URL is unreachable[^\n]*continues/g;

const untilItWaits = (started: TestProcess) =>
  until(() => started.output().match(waits) !== null, {
    message: () => `it waits:\n${started.output()}`,
  });

async function end(started: TestProcess): Promise<void> {
  started.kill('SIGTERM');
  expect(await started.waitForExit()).toEqual({ code: 0, signal: null });
}

describe.each(
  casesOf<readonly [entry: string, portName: string]>(
    [['all-in-one', 'PORT']],
    [
      ['api', 'PORT'],
      ['worker', 'WORKER_PORT'],
    ],
  ),
)('%s, started while Postgres is unreachable', (entry, portName) => {
  test('waits, says so once, answers the probes, and continues', async () => {
    await proxy.refuse();
    const port = await freePort();
    const env = { DATABASE_URL: through(), [portName]: port };
    const started = start(entry, env, startSluice);
    const ask = (path: string) => fetch(`http://127.0.0.1:${port}${path}`);
    await untilItWaits(started);
    expect((await ask('/livez')).status).toBe(200);
    const ready = await ask('/readyz');
    expect(ready.status).toBe(503);
    expect(await ready.json()).toMatchObject({
      status: 'unavailable',
      checks: { postgres: 'unreachable (ECONNREFUSED)' },
    });
    expect((await ask('/api/')).status).toBe(503);
    await proxy.accept();
    await started.waitForLine(/^ready/);
    expect(started.output().match(waits)).toHaveLength(1);
    expect((await ask('/readyz')).status).toBe(200);
    await end(started);
  });

  atNight('ends with 0 on SIGTERM', async () => {
    await proxy.refuse();
    const started = start(entry, { DATABASE_URL: through() });
    await untilItWaits(started);
    await end(started);
    await proxy.accept();
  });
});

/** Starts a program that is expected to end. @returns what it printed that is not a log line */
async function startBroken(
  program: string,
  env: Readonly<Record<string, string>>,
): Promise<{ readonly code: number | null; readonly lines: readonly string[] }> {
  const data = { DATABASE_URL: database.url, SLUICE_DATA_DIR: path.join(folder, 'data') };
  const started = start(program, { ...data, ...env });
  const { code } = await started.waitForExit();
  const lines = started.output().trim().split('\n');
  return { code, lines: lines.filter((line) => !line.startsWith('{')) };
}

const wrong = casesOf<readonly [string, string, Partial<URL>]>(
  [['password', '28P01', { password: 'wrong-canary' }]],
  [['database', '3D000', { pathname: '/no_such_database' }]],
);
test.each(wrong)(
  'a wrong %s ends the start with one line that names DATABASE_URL',
  async (_, code, change) => {
    const url = Object.assign(new URL(database.url), change);
    const broken = await startBroken('api', { DATABASE_URL: url.href });
    const line = new RegExp(
      `^sluice api: DATABASE_URL: .*\\(${code}\\); .*correct the address\\. Then start again\\.$`,
    );
    expect(broken).toEqual({ code: 1, lines: [expect.stringMatching(line)] });
    expect(broken.lines.join()).not.toContain('canary');
  },
);

atNight.each([
  ['api', 'PORT', /^sluice api: PORT: 127\.0\.0\.1:\d+ is in use by another program\. Stop/],
  ['api', 'METRICS_PORT', /^sluice api: METRICS_PORT: 127\.0\.0\.1:\d+ is in use/],
  ['worker', 'WORKER_PORT', /^sluice worker: WORKER_PORT: 127\.0\.0\.1:\d+ is in use/],
])('%s, with a taken %s: one line that names it', async (program, name, line) => {
  const { code, lines } = await startBroken(program, { [name]: busyPort });
  expect([code, lines]).toEqual([1, [expect.stringMatching(line)]]);
});

atNight.each([
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

atNight.each([
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

atNight('a process that may open too few files ends with one line', async () => {
  const program = path.join(projectRoot, 'dist/main/api.js');
  const command = 'ulimit -n 64; exec "$0" "$1"';
  const started = startProcess('sh', ['-c', command, process.execPath, program]);
  expect((await started.waitForExit()).code).toBe(1);
  expect(started.output()).toMatch(
    /^sluice: this process may open too few files .*ulimit -n 1024.*\n$/,
  );
});

atNight(
  'a setting that does not exist, and a folder of files that does not, are reported at the start',
  async () => {
    const started = startSluice('main/api.js', [], {
      env: {
        ...{ ...settings, DATABASE_URL: database.url },
        ...{ RATE_LIMIT_PER_MINUT: '10', SLUICE_NONSENSE: 'x' },
        FILE_DESTINATION_ROOT: path.join(folder, 'gone'),
      },
    });
    await started.waitForLine(/^ready /);
    const warnings = started.output().match(/"level":"warn"[^\n]*is not a setting[^\n]*/g) ?? [];
    expect(warnings.join()).toContain('Did you mean RATE_LIMIT_PER_MINUTE?');
    expect(warnings.join()).toContain('SLUICE_NONSENSE is not a setting. .env.example');
    expect(started.output()).toMatch(
      /"level":"error"[^\n]*FILE_DESTINATION_ROOT: [^\n]*\/gone does not exist\. Create the folder/,
    );
    await end(started);
  },
);

atNight('a worker starts while Redis and the source are unreachable', async () => {
  const [redis, source] = [await freePort(), await freePort()];
  const worker = start('worker', {
    DATABASE_URL: database.url,
    REDIS_URL: `redis://127.0.0.1:${redis}`,
    SOURCE_DATABASE_URL: `postgres://nobody@127.0.0.1:${source}/none`,
  });
  await worker.waitForLine(/^ready worker/);
  await end(worker);
});

atNight('a process whose terminal is gone ends in order', async () => {
  const log = path.join(folder, 'log');
  const pidFile = path.join(folder, 'pid');
  const end = path.join(folder, 'end');
  const program = path.join(bundleFolder, 'main/api.js');
  // The terminal goes with the shell, and the process is in a session of its own, as after a connection that was lost.
  const shell = `exec 3<&0; mkfifo '${end}'; setsid '${process.execPath}' '${program}' <&3 >'${log}' 2>&1 &
    echo $! >'${pidFile}'; read line <'${end}'`;
  const env = { ...settings, DATABASE_URL: database.url };
  const terminal = startProcess('script', ['-qec', shell, '/dev/null'], { env });
  const output = () => readFile(log, 'utf8');
  const isReady = async () => /^ready/m.test(await output().catch(() => ''));
  await until(isReady);
  await writeFile(end, 'end\n');
  await terminal.waitForExit();
  const pid = Number(await readFile(pidFile, 'utf8'));
  onTestFinished(() => {
    if (isAlive(pid)) process.kill(pid, 'SIGKILL');
  });
  process.kill(pid, 'SIGTERM');
  await until(() => !isAlive(pid));
  expect(await output()).toContain('shutting down');
  expect(await output()).not.toContain('Assertion failed');
});

describe.runIf(isNightly)('Postgres is restarted during a migration', () => {
  const postgres = useStage(() => startOwnPostgres());

  // The first migration is in the middle of its transaction when it comes to `runs`; the list of
  // migrations is made before it.
  test.each([
    ['immediate', 'runs'],
    ['fast', 'sluice_migrations'],
    ['fast', 'runs'],
  ] as const)(
    '%s, while it waits for %s: the start goes on, with the whole schema',
    async (mode, table) => {
      const blocker = new Client({ connectionString: postgres.url });
      blocker.on('error', () => {});
      await blocker.connect();
      await blocker.query('drop schema public cascade; create schema public');
      await blocker.query(`begin; create table ${table} (id int)`);
      const started = start('api', { DATABASE_URL: postgres.url });
      const watcher = new Client({ connectionString: postgres.url });
      watcher.on('error', () => {});
      await watcher.connect();
      await until(
        async () => {
          const { rows } = await watcher.query(
            `select from pg_stat_activity where application_name = 'sluice-migrate' and wait_event_type = 'Lock'`,
          );
          return rows.length > 0;
        },
        { message: 'the migration is in progress' },
      );
      await postgres.restart(mode);
      await started.waitForLine(/^ready http/);
      expect(started.output()).toContain('The start continues when it is reachable');
      const made = await withClient(postgres.url, (client) =>
        client.query(
          `select from pg_tables where schemaname = 'public' and tablename in ('runs', 'eras', 'activity')`,
        ),
      );
      expect(made.rowCount).toBe(3);
      await end(started);
    },
  );
});
