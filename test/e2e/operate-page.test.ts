import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findFreePort } from '../support/free-port.ts';
import { folderOfTests } from '../support/own-folder.ts';
import { isAlive } from '../support/is-alive.ts';
import { hasPrograms, runCommands } from '../support/page-commands.ts';
import { startOwnPostgres } from '../support/postgres-server.ts';
import { projectRoot } from '../support/processes.ts';
import { startReceiver } from '../support/receiver.ts';
import { ownRedisAvailable, startOwnRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';

const canRun = hasPrograms('jq', 'openssl', 'curl', 'redis-cli') && ownRedisAvailable();
if (!canRun) console.log('docs/operate.md is not run: no jq, openssl, curl or redis.');

/** The blocks of the page by their step, in their order. */
const page = readFileSync(path.join(projectRoot, 'docs/operate.md'), 'utf8');
const blocks = page.split(/^## /m).flatMap((section) =>
  [...section.matchAll(/^```(sh|sql|yaml)\n([\s\S]*?)^```$/gm)].map(([, language, text = '']) => ({
    step: /^(?:\d+\. )?(.*)/.exec(section)?.[1] ?? '',
    language,
    text,
  })),
);
const blocksOf = (...steps: readonly string[]) => blocks.filter(({ step }) => steps.includes(step));

describe.skipIf(!canRun)('docs/operate.md, on a fresh installation', () => {
  const postgres = useStage(() => startOwnPostgres());
  const redis = useStage(() => startOwnRedis());
  const receiver = useStage(() => startReceiver());
  /** The home of the person. */
  const folder = folderOfTests();
  /** Of the API, its metrics and the two workers, by what the page has. */
  const ports = new Map<string, number>();
  let pids: readonly number[] = [];
  /** What the page took over from one block to the next: the shell of a person stays open. */
  let before = '';

  beforeAll(async () => {
    for (const port of ['8000', '9464', '9465', '9466']) ports.set(port, await findFreePort());
  }, 120_000);
  afterAll(async () => {
    for (const pid of pids.filter(isAlive)) process.kill(pid, 'SIGTERM');
    await until(() => pids.every((pid) => !isAlive(pid)));
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
    const own = await connect(postgres.adminUrl);
    const isMade = (await own.query(`select from pg_roles where rolname = 'postgres'`)).rowCount;
    await own.query(
      `${isMade ? 'alter' : 'create'} role postgres superuser login password 'postgres'`,
    );
    await own.end();
    const admin = await connect(addressOf('postgres'));
    await admin.query('drop database if exists sluice with (force)');
    await admin.query('drop role if exists sluice_source');
    const { rowCount } = await admin.query(`select from pg_roles where rolname = 'sluice'`);
    if (rowCount) await admin.query('alter role sluice rename to another');
    await admin.end();
  }

  async function run(text: string): Promise<string> {
    const env = {
      HOME: folder,
      SLUICE_HOME: projectRoot,
      SERVER: server(),
      SUPERUSER: superuser(),
      REDIS_URL: redis.url,
      PORT: String(ports.get('8000')),
      WEBHOOK: receiver.url,
      ALLOWED_PRIVATE_ENDPOINTS: receiver.endpoint,
      SLUICE_DATA_DIR: path.join(folder, 'data'),
    };
    const own = [...ports].reduce((all, [port, free]) => all.replaceAll(port, `${free}`), text);
    const { code, output } = await runCommands(`unset -f sluice\n${before}\n${own}`, {
      cwd: folder,
      env,
      bin: folder,
    });
    expect(code, `${text}\n${output}`).toBe(0);
    return output;
  }

  test('the database, the keys, the settings and the models', async () => {
    await empty();
    // The first block is how a release is built, which has been done for this test.
    const [, shell] = blocksOf('Before');
    before = shell?.text ?? '';
    expect(await run('')).toMatch(/^\d+\.\d+\.\d+\n$/);
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
    await writeFile(path.join(folder, 'sluice/models.yaml'), yaml?.text ?? '');
    expect(await run(commands?.text ?? '')).toMatch(
      /source role: sluice_source[\s\S]*orders: good/,
    );
    before += 'set -a && . ./sluice.env && set +a\n';
  }, 120_000);

  test('the processes, the keys, the first organization and what comes after', async () => {
    const [start, look] = blocksOf('API and workers');
    await run(`${start?.text}\njobs -p > pids`);
    const started = readFileSync(path.join(folder, 'sluice/pids'), 'utf8').trim().split('\n');
    pids = started.map(Number);
    expect(pids).toHaveLength(3);
    expect(await run(look?.text ?? '')).toMatch(/^migrations +ok/m);
    const rest = blocksOf(
      "The operator's key",
      'The first organization',
      'A notification target',
      'A nightly proof',
      'Stop a worker and watch',
    );
    const script = rest.map(({ text }) => text).join('\n');
    await run(`${script}\nsluice doctor > doctor.txt`);
    const done = readFileSync(path.join(folder, 'sluice/doctor.txt'), 'utf8');
    expect(done).toMatch(/^workers +ok +2 reported/m);
    expect(receiver.received).toHaveLength(1);
    // Each process answers at its own port: of two workers on one machine neither takes that of the other.
    for (const port of ['9464', '9465', '9466']) {
      expect((await fetch(`http://127.0.0.1:${ports.get(port)}/metrics`)).status).toBe(200);
    }
    expect(pids.filter(isAlive)).toEqual(pids);
  }, 420_000);
});
