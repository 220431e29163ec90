import { asRole } from '../../support/template-database.ts';
import { randomBytes, randomUUID } from 'node:crypto';
import { connect, createServer } from 'node:net';
import { afterAll, expect, it, onTestFinished, test } from 'vitest';
import { storeMark } from '../../../src/foundation/domain/store-mark.ts';
import {
  type Database,
  openDatabase,
  openQueuePool,
} from '../../../src/state/store/database/database.ts';
import { plannedOnce, prepared } from '../../../src/state/store/database/prepared.ts';
import { findRunNeeds, takeRuns } from '../../../src/state/store/runs/outbox.ts';
import { createTestDatabase } from '../../support/database.ts';
import { listen } from '../../support/free-port.ts';
import { openTestPool } from '../../support/run-side.ts';
import { until } from '../../support/until.ts';
import { atNight } from '../../support/nightly.ts';
import { useStage } from '../../support/use-stage.ts';

const opened: Database[] = [];

const database = useStage(createTestDatabase);
afterAll(async () => {
  for (const db of opened) await db.close();
});

/** By default a pool that sends all its statements to one session. */
function open(url = database.url, maxConnections = 1): Database {
  const db = openTestPool(url, maxConnections);
  opened.push(db);
  return db;
}

const statement = prepared('select 1 + $1::int as sum');

/** Whether the session knows the statement. */
async function isPrepared(db: Database): Promise<boolean> {
  const found = 'select from pg_prepared_statements where statement = $1';
  return (await db.query(found, [statement])).length > 0;
}

/** Whether the session is marked as one to our own tables: settling does not wait for its transactions. */
async function isMarked(db: Database): Promise<boolean> {
  const rows = await db.query(
    `select from pg_locks where locktype = 'advisory' and granted and pid = pg_backend_pid()
        and (classid, objid, objsubid) = ($1, $2, 2)`,
    [...storeMark],
  );
  return rows.length > 0;
}

it('a marked statement is prepared once per connection', async () => {
  const db = open();
  for (const term of [1, 2]) expect(await db.query(statement, [term])).toEqual([{ sum: term + 1 }]);
  expect([await isPrepared(db), await isMarked(db)]).toEqual([true, true]);
});

it('a statement that is planned once is planned once on each of few connections', async () => {
  const plansOf = (mark: string) =>
    `select pg_backend_pid() as pid, custom_plans::int as custom from pg_prepared_statements
      where statement like '%' || $1::text || '%' -- ${mark}`;
  const db = open(database.url, 10);
  await db.query('select 1');
  const ask = async (text: string, mark: string) => {
    const thirty = () =>
      Promise.all(
        Array.from({ length: 30 }, () => db.query<{ pid: number; custom: number }>(text, [mark])),
      );
    for (let call = 0; call < 3; call += 1) await thirty();
    const rows = (await thirty()).flat();
    return {
      custom: Math.max(...rows.map(({ custom }) => custom)),
      connections: new Set(rows.map(({ pid }) => pid)).size,
    };
  };
  const usual = await ask(prepared(plansOf('usual')), 'usual');
  expect(usual.custom).toBeGreaterThan(0);
  expect(usual.connections).toBeGreaterThan(2);
  expect(await ask(plannedOnce(plansOf('once')), 'once')).toEqual({ custom: 0, connections: 2 });
});

it('dispatchers that wait for a frozen one hold up no statement that all runs share', async () => {
  const db = open(database.url, 10);
  const frozen = open();
  const waiting: Promise<unknown>[] = [];
  await frozen.transaction(async (tx) => {
    await tx.query('select from installation for update');
    const rules = { perExport: 1, perProject: 1, company: null };
    for (let n = 0; n < 3; n += 1) waiting.push(takeRuns(db, rules));
    await until(async () => {
      const locked = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      return (await db.query(locked)).length >= 2;
    });
    expect(await findRunNeeds(db, [randomUUID()])).toEqual([null]);
  });
  await Promise.all(waiting);
});

it('statements have no names, and sessions no mark, behind a pooler, which reports a process id of its own', async () => {
  const pooler = await startPooler(new URL(database.url));
  onTestFinished(async () => {
    await opened.pop()?.close();
    pooler.close();
  });
  const db = open(pooler.url);
  expect(await db.query(statement, [1])).toEqual([{ sum: 2 }]);
  await db.transaction(async (tx) => {
    expect(await tx.query(statement, [2])).toEqual([{ sum: 3 }]);
  });
  expect([await isPrepared(db), await isMarked(db)]).toEqual([false, false]);
});

it('a session of the queue does not wait for the disk', async () => {
  const options = { applicationName: 'test', maxConnections: 1, onError: () => {} };
  const queue = openQueuePool({ ...options, connectionString: database.url });
  onTestFinished(() => queue.close());
  const { rows } = await queue.pool.query(
    `select setting, source from pg_settings where name = 'synchronous_commit'`,
  );
  expect(rows).toEqual([{ setting: 'off', source: 'session' }]);
});

it('after a migration has changed the type of a result, statements have no names', async () => {
  const db = open();
  await db.query('create table numbers as select 1 as value');
  const text = prepared('select value from numbers where value::text <> $1');
  // A pool closes a connection after an error, but not if it was in a transaction.
  const read = () => db.transaction((tx) => tx.query(text, ['']));
  expect(await read()).toEqual([{ value: 1 }]);
  await db.query('alter table numbers alter column value type text');
  await expect(read()).rejects.toThrow('must not change result type');
  expect(await read()).toEqual([{ value: '1' }]);
});

/** Passes bytes on, but reports another process id to the client: message K, its length, the id. */
async function startPooler(target: URL): Promise<{ url: string; close: () => void }> {
  const key = Buffer.from([0x4b, 0, 0, 0, 12]);
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    client.pipe(upstream);
    upstream.on('data', (bytes) => {
      const at = bytes.indexOf(key);
      if (at >= 0) bytes.writeInt32BE(bytes.readInt32BE(at + 5) + 1, at + 5);
      client.write(bytes);
    });
    for (const socket of [client, upstream]) {
      socket.on('error', () => {});
      socket.on('close', () => (socket === client ? upstream : client).destroy());
    }
  });
  const url = new URL(target);
  url.host = `127.0.0.1:${await listen(server)}`;
  return { url: url.href, close: () => server.close() };
}

/** A database, and a role in it that may have so many connections. @returns what opens a pool as that role */
async function limitTo(most: number) {
  const database = await createTestDatabase();
  const role = `few_${randomBytes(6).toString('hex')}`;
  await database.admin.query(`create role ${role} login password 'x' connection limit ${most}`);
  onTestFinished(async () => {
    await database.admin.query(`drop role ${role}`);
    await database.drop();
  });
  const connectionString = asRole(database.url, role, 'x');
  const options = { connectionString, applicationName: 'test', onError: () => {} };
  return (maxConnections: number) => openDatabase({ ...options, maxConnections });
}

atNight('with fewer connections than its pools want, two processes do all their work', async () => {
  const open = await limitTo(3);
  const processes = [open(20), open(20)];
  const work = processes.flatMap((db) =>
    Array.from({ length: 20 }, (_, index) =>
      index % 2 === 0
        ? db.query('select pg_sleep(0.02)')
        : db.transaction((tx) => tx.query('select pg_sleep(0.02)')),
    ),
  );
  const ends = await Promise.allSettled(work);
  await Promise.all(processes.map((db) => db.close()));
  const reasons = ends.flatMap((end) => (end.status === 'rejected' ? [String(end.reason)] : []));
  expect(reasons).toEqual([]);
});

test('a connection that is kept is there when the server has no other', async () => {
  const open = await limitTo(1);
  const kept = open(1);
  await kept.query('select 1');
  const others = open(20);
  const waiting = others.query('select 1');
  waiting.catch(() => {});
  expect(await kept.query('select 1 as one')).toEqual([{ one: 1 }]);
  await kept.close();
  await waiting;
  await others.close();
});
