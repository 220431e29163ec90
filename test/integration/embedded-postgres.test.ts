import { listen } from '../support/free-port.ts';
import { chmod, cp, lstat, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { Client } from 'pg';
import { afterAll, describe, expect, it } from 'vitest';
import { findBinaries, locatePackage } from '../../src/state/embedded-postgres/binaries.ts';
import { chooseIdentity } from '../../src/state/embedded-postgres/identity.ts';
import {
  type EmbeddedPostgres,
  findEmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../src/state/embedded-postgres/start.ts';
import { projectRoot, startProcess, type TestProcess } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { folderOfTest, folderOfTests } from '../support/own-folder.ts';

const settings = { fsync: 'off', shared_buffers: '16MB' };

const dataDir = folderOfTests();
afterAll(() => start().then((server) => server.stop()));

const start = (): Promise<EmbeddedPostgres> => startEmbeddedPostgres({ dataDir, settings });
const inData = (name: string): string => path.join(dataDir, 'postgres', 'data', name);

/** A process that starts the server, says so, and waits to be killed. */
function startLauncher(folder: string): TestProcess {
  const module = path.join(projectRoot, 'dist/state/embedded-postgres/start.js');
  const script = `
    const { startEmbeddedPostgres } = await import(${JSON.stringify(module)});
    const server = await startEmbeddedPostgres(${JSON.stringify({ dataDir: folder, settings })});
    console.log('started');
    setInterval(() => {}, 1000);`;
  return startProcess(process.execPath, ['--input-type=module', '-e', script]);
}

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  return (await client.query<Record<string, unknown>>(text).finally(() => client.end())).rows;
}

describe('the embedded PostgreSQL', () => {
  it('starts in an empty folder, on loopback only, behind a password', async () => {
    const server = await start();
    const [row] = await query(
      server.url,
      `SELECT current_database() AS name, current_setting('listen_addresses') AS address,
              current_setting('unix_socket_directories') AS sockets,
              current_setting('server_encoding') AS encoding, current_setting('TimeZone') AS zone`,
    );
    expect(row).toEqual({
      ...{ name: 'sluice', address: '127.0.0.1', sockets: '', encoding: 'UTF8', zone: 'UTC' },
    });
    const wrong = new URL(server.url);
    wrong.password = 'guess';
    await expect(query(wrong.href, 'SELECT 1')).rejects.toThrow('password authentication failed');
    expect((await stat(inData('sluice.json'))).mode & 0o777).toBe(0o600);
    await server.stop();
    expect(await findEmbeddedPostgres(dataDir)).toBeNull();
  });

  it('refuses a second start in the same folder, and names the address of the first', async () => {
    const first = await start();
    await expect(start()).rejects.toThrow(
      `another process of Sluice uses it (on ${dataDir}). Use that one, stop it first, or set another SLUICE_DATA_DIR.`,
    );
    await first.publish('http://127.0.0.1:4321');
    await expect(start()).rejects.toThrow('already running at http://127.0.0.1:4321');
    await query(first.url, 'CREATE TABLE kept AS SELECT 1 AS n');
    await first.stop();
    await first.stop();
    expect(await findEmbeddedPostgres(dataDir)).toBeNull();
  });

  it('keeps its data and its port', async () => {
    const before = Number(await readFile(path.join(dataDir, 'postgres', 'port'), 'utf8'));
    const server = await start();
    expect(server.port).toBe(before);
    expect(await query(server.url, 'SELECT n FROM kept')).toEqual([{ n: 1 }]);
    await server.stop();
  });

  it('takes another port if the last one is taken', async () => {
    const last = Number(await readFile(path.join(dataDir, 'postgres', 'port'), 'utf8'));
    const occupant = createServer();
    await listen(occupant, last);
    const server = await start();
    expect(server.port).not.toBe(last);
    expect(await query(server.url, 'SELECT n FROM kept')).toEqual([{ n: 1 }]);
    await server.stop();
    occupant.close();
  });

  it('is taken over, and stopped in the end, after its launcher was killed', async () => {
    const launcher = startLauncher(dataDir);
    await launcher.waitForLine(/^started/);
    launcher.kill('SIGKILL');
    await launcher.waitForExit();
    const orphan = await readServerPid();
    const server = await start();
    expect(await readServerPid()).toBe(orphan);
    await server.stop();
    expect(await findEmbeddedPostgres(dataDir)).toBeNull();
  });

  it('recovers after the server itself was killed', async () => {
    const crashed = await start();
    await query(crashed.url, 'INSERT INTO kept VALUES (2)');
    const killed = await readServerPid();
    process.kill(killed, 'SIGKILL');
    await crashed.stop();
    const server = await start();
    expect(await readServerPid()).not.toBe(killed);
    expect(await query(server.url, 'SELECT n FROM kept ORDER BY n')).toEqual([{ n: 1 }, { n: 2 }]);
    await server.stop();
  });

  it('starts over a postmaster.pid whose number is now a foreign process', async () => {
    // Not this process: PostgreSQL takes its own parent's number for an old one of its own.
    const foreign = startProcess('sleep', ['60']);
    const lines = [foreign.pid, dataDir, 0, 1, '', '127.0.0.1', '  1 1', 'ready   '];
    await writeFile(inData('postmaster.pid'), `${lines.join('\n')}\n`);
    const server = await start();
    expect(await query(server.url, 'SELECT n FROM kept WHERE n = 1')).toEqual([{ n: 1 }]);
    await server.stop();
    foreign.kill('SIGKILL');
  });

  it('refuses a second start also after the first one lost its connection', async () => {
    const first = await start();
    const locks = `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted`;
    const marks = async () => (await query(first.url, locks)).map(({ pid }) => pid);
    const lost = await marks();
    expect(lost).toHaveLength(1);
    await query(first.url, `SELECT pg_terminate_backend(pid) FROM unnest('{${lost}}'::int[]) pid`);
    await until(async () => {
      const now = await marks();
      return now.length === 1 && !now.some((pid) => lost.includes(pid));
    });
    await expect(start()).rejects.toThrow('another process of Sluice uses it');
    await first.stop();
  });

  it('refuses data of another major version', async () => {
    const version = await readFile(inData('PG_VERSION'), 'utf8');
    await writeFile(inData('PG_VERSION'), '9\n');
    await expect(start()).rejects.toThrow(/is of PostgreSQL 9, but the embedded server is 18/);
    await writeFile(inData('PG_VERSION'), version);
  });
});

it('clears what an initdb whose start was killed is still writing', async () => {
  const folder = folderOfTest();
  // No process has this number: the highest that Linux gives is one less.
  const unfinished = path.join(folder, 'postgres', 'init-4194304-0');
  await mkdir(unfinished, { recursive: true });
  const writes =
    'echo writing; n=0; until test $SECONDS -ge 2; do : > "$0/$n" || exit; n=$((n+1)); done';
  const initdb = startProcess('bash', ['-c', writes, unfinished]);
  await initdb.waitForLine(/writing/);
  const server = await startEmbeddedPostgres({ dataDir: folder, settings });
  expect(await readdir(path.join(folder, 'postgres'))).not.toContain('init-4194304-0');
  await server.stop();
  await initdb.waitForExit();
});

describe("PostgreSQL's programs", () => {
  it('are copied to a place where the server can run them; a copy that others can write to is not run', async () => {
    const top = folderOfTest();
    await chmod(top, 0o755);
    // Closed to another user, read-only for this one, and as npm unpacks it: without links.
    const closed = path.join(top, 'closed');
    const original = locatePackage();
    const source = { native: path.join(closed, 'native'), version: original.version };
    await mkdir(closed, { mode: 0o700 });
    await cp(original.native, source.native, {
      recursive: true,
      filter: async (file) =>
        !/\.a$|\/share$|\/lib\/postgresql$/.test(file) && !(await lstat(file)).isSymbolicLink(),
    });
    await chmod(path.join(source.native, 'lib'), 0o555);
    const folder = path.join(top, 'open');
    const identity = await chooseIdentity(folder);

    const one = await findBinaries(identity, source, [folder]);
    const other = await findBinaries(identity, source, [folder]);
    const copy = path.join(folder, `postgres-${source.version}`);
    expect(one).toEqual({ bin: path.join(copy, 'bin'), major: '18' });
    expect(other).toEqual(one);
    expect(await readdir(folder)).toEqual([path.basename(copy)]);

    await chmod(copy, 0o777);
    await expect(findBinaries(identity, source, [folder])).rejects.toThrow('Set DATABASE_URL');
    await chmod(path.join(source.native, 'lib'), 0o755);
  });
});

async function readServerPid(): Promise<number> {
  return Number((await readFile(inData('postmaster.pid'), 'utf8')).split('\n')[0]);
}
