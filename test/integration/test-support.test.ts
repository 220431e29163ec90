import { connect } from 'node:net';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../support/database.ts';
import { withClient } from '../support/drop-database.ts';
import { startOwnPostgres } from '../support/postgres-server.ts';
import { startProcess } from '../support/processes.ts';
import { ownRedisAvailable, startOwnRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

describe('the test database', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());

  it('has our tables and nothing in them', async () => {
    const { rows } = await database.pool.query('SELECT count(*)::int AS n FROM batch_exports');
    expect(rows).toEqual([{ n: 0 }]);
  });

  it('is cloned for several at once, each apart from the other', async () => {
    const clones = await Promise.all([1, 2, 3].map(() => createTestDatabase()));
    await clones[0]?.pool.query("INSERT INTO organizations (name) VALUES ('only here')");
    const { rows } =
      (await clones[1]?.pool.query("SELECT * FROM organizations WHERE name = 'only here'")) ?? {};
    expect(rows).toEqual([]);
    await Promise.all(clones.map((clone) => clone.drop()));
  });

  it('is dropped although a client is connected', async () => {
    const empty = await createEmptyDatabase();
    const name = new URL(empty.url).pathname.slice(1);
    const other = new Client({ connectionString: empty.url });
    other.on('error', () => {});
    await other.connect();
    await empty.drop();
    const left = await database.pool.query('SELECT 1 FROM pg_database WHERE datname = $1', [name]);
    expect(left.rowCount).toBe(0);
  });

  it('is dropped although a test left a transaction prepared and another one open', async () => {
    const own = await startOwnPostgres();
    const empty = await createEmptyDatabase(own.server);
    const [left, open] = [1, 2].map(() => new Client({ connectionString: empty.url }));
    for (const client of [left, open]) {
      client?.on('error', () => {});
      await client?.connect();
    }
    await left?.query('CREATE TABLE things (id int)');
    await left?.query('BEGIN; INSERT INTO things VALUES (1)');
    await left?.query(`PREPARE TRANSACTION 'left ${empty.url.slice(-12)}'`);
    await open?.query('BEGIN; INSERT INTO things VALUES (2)');
    await empty.drop();
    const rows = await withClient(own.url, async (client) => {
      return (await client.query('SELECT * FROM pg_prepared_xacts')).rows;
    });
    expect(rows).toEqual([]);
    await own.stop();
  });
});

describe('a real process', () => {
  it('is read line by line and its end is seen', async () => {
    const process = startProcess('sh', ['-c', 'echo one; echo two >&2; echo three; exit 3']);
    expect(await process.waitForLine(/^th/)).toBe('three');
    expect(await process.waitForExit()).toEqual({ code: 3, signal: null });
    expect(process.output()).toContain('two');
  });

  it('is killed by signal, even if its own child keeps its output open', async () => {
    const process = startProcess('sh', ['-c', 'echo up; sleep 60; true']);
    await process.waitForLine(/^up/);
    process.kill('SIGKILL');
    expect(await process.waitForExit()).toEqual({ code: null, signal: 'SIGKILL' });
  });

  it('that ends before its line fails the wait with its output', async () => {
    const process = startProcess('sh', ['-c', 'echo oh no']);
    await expect(process.waitForLine(/^ready/)).rejects.toThrow('oh no');
  });
});

describe('until', () => {
  it('says what it waited for and why it failed', async () => {
    const cause = new Error('still closed');
    const wait = until(() => Promise.reject(cause), { timeoutMs: 30, message: 'the door opens' });
    await expect(wait).rejects.toMatchObject({ message: /the door opens/, cause });
  });
});

describe.skipIf(!ownRedisAvailable())('a Redis of its own', () => {
  it('loses what it held when it is killed, and comes back on the same port', async () => {
    const redis = await startOwnRedis();
    const send = (...command: string[]) => redisCommand(redis.port, command.join(' '));
    expect(await send('SET', 'k', 'v')).toBe('+OK');
    expect(await send('CONFIG', 'GET', 'maxmemory-policy')).toContain('noeviction');
    await redis.kill();
    await redis.restart();
    expect(await send('GET', 'k')).toBe('$-1');
    await redis.stop();
    await expect(send('PING')).rejects.toThrow('ECONNREFUSED');
  });
});

function redisCommand(port: number, command: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(`${command}\r\n`));
    socket.once('error', reject);
    socket.once('data', (data) => {
      socket.destroy();
      resolve(data.toString().trim());
    });
  });
}
