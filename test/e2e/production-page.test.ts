import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runCommands } from '../support/page-commands.ts';
import { type OwnPostgres, startOwnPostgres } from '../support/postgres-server.ts';
import { projectRoot, startBundled, type TestProcess } from '../support/processes.ts';
import { type OwnRedisServer, ownRedisAvailable, startOwnRedis } from '../support/redis.ts';

const has = (...programs: readonly string[]): boolean =>
  programs.every((program) => {
    try {
      execFileSync('sh', ['-c', `command -v ${program}`]);
      return true;
    } catch {
      return false;
    }
  });
const canRun = has('jq', 'openssl', 'curl', 'redis-cli') && ownRedisAvailable();
if (!canRun) console.log('docs/production.md is not run: no jq, openssl, curl or redis.');

/** The blocks of the page by their step, in their order. */
const page = readFileSync(path.join(projectRoot, 'docs/production.md'), 'utf8');
const blocks = page.split(/^## /m).flatMap((section) =>
  [...section.matchAll(/^```(sh|sql|yaml)\n([\s\S]*?)^```$/gm)].map(([, language, text = '']) => ({
    step: /^\d+\. (.*)/.exec(section)?.[1] ?? '',
    language,
    text,
  })),
);
const blocksOf = (...steps: readonly string[]) => blocks.filter(({ step }) => steps.includes(step));

describe.skipIf(!canRun)('docs/production.md, on a fresh installation', () => {
  let postgres: OwnPostgres;
  let redis: OwnRedisServer;
  let folder: string;
  const processes: TestProcess[] = [];
  /** What the page took over from one block to the next: the shell of a person stays open. */
  let before = '';

  beforeAll(async () => {
    [postgres, redis] = await Promise.all([startOwnPostgres(), startOwnRedis()]);
    folder = await mkdtemp(path.join(tmpdir(), 'sluice-production-'));
  }, 120_000);
  afterAll(async () => {
    for (const child of processes) {
      child.kill('SIGTERM');
      await child.waitForExit();
    }
    await redis?.stop();
    await postgres?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const server = () => `127.0.0.1:${postgres.port}`;
  const superuser = () => 'postgres:postgres';
  const connect = async (url: string) => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    return client;
  };
  const addressOf = (database: string) => `postgres://${superuser()}@${server()}/${database}`;

  /** The server has what Sluice makes in one of its own. That of a person has not. */
  async function empty(): Promise<void> {
    const own = await connect(postgres.url);
    await own.query(`create role postgres superuser login password 'postgres'`);
    await own.end();
    const admin = await connect(addressOf('postgres'));
    await admin.query('drop database sluice with (force)');
    await admin.query('drop role if exists sluice_source');
    await admin.query('alter role sluice rename to another');
    await admin.end();
  }

  async function run(text: string): Promise<string> {
    const env = {
      SERVER: server(),
      SUPERUSER: superuser(),
      REDIS_URL: redis.url,
      SLUICE_DATA_DIR: path.join(folder, 'data'),
    };
    const { code, output } = await runCommands(`${before}\n${text}`, {
      cwd: folder,
      env,
      bin: folder,
    });
    expect(code, `${text}\n${output}`).toBe(0);
    return output;
  }

  test('the database, the keys, the settings and the models', async () => {
    await empty();
    const admin = await connect(addressOf('postgres'));
    for (const { text } of blocksOf('Database and roles')) {
      for (const statement of text.split(';').filter((one) => one.trim() !== '')) {
        await admin.query(statement);
      }
    }
    await admin.end();
    const rows = await connect(addressOf('sluice'));
    await rows.query(
      `create table orders (id bigint primary key, account_id int not null, received_at timestamptz not null, net numeric(12,2));
       create index on orders (account_id, received_at)`,
    );
    await rows.end();
    for (const { text } of blocksOf('Keys', 'Settings')) await run(text);
    const [yaml, commands] = blocksOf('Models');
    await writeFile(path.join(folder, 'models.yaml'), yaml?.text ?? '');
    expect(await run(commands?.text ?? '')).toMatch(
      /source role: sluice_source[\s\S]*orders: good/,
    );
    before = 'set -a && . ./sluice.env && set +a';
  }, 120_000);

  test('the processes, the keys, the first organization and what comes after', async () => {
    const lines = readFileSync(path.join(folder, 'sluice.env'), 'utf8').trim().split('\n');
    const settings = Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
    );
    const env = {
      ...settings,
      METRICS_PORT: '0',
      WORKER_PORT: '0',
      PORT: '0',
      SLUICE_DATA_DIR: folder,
    };
    const api = startBundled('main/api.js', [], { env });
    const worker = startBundled('main/worker.js', [], { env });
    processes.push(api, worker);
    const ready = await api.waitForLine(/^ready /, 60_000);
    await worker.waitForLine(/ready|worker/i, 60_000);
    const address = ready.replace('ready ', '');
    const [doctor] = blocksOf('API and workers');
    const open = await run(doctor?.text ?? '');
    expect(open).toMatch(/Not done yet of docs\/production\.md:\n- The operator's key: /);
    const rest = blocksOf(
      "The operator's key",
      'The first organization',
      'A notification target',
      'A nightly proof',
      'Stop a worker and watch',
    );
    const script = rest
      .map(({ text }) => text)
      .join('\n')
      .replaceAll('http://127.0.0.1:8000', address);
    await run(`${script}\nsluice doctor > doctor.txt`);
    expect(readFileSync(path.join(folder, 'doctor.txt'), 'utf8')).not.toContain('Not done yet');
  }, 180_000);
});
