import { randomBytes } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../../src/state/store/database/database.ts';
import { createTestDatabase } from '../../support/database.ts';

/** A database, and a role in it that may have so many connections. @returns what opens a pool as that role */
async function limitTo(most: number) {
  const database = await createTestDatabase();
  const role = `few_${randomBytes(6).toString('hex')}`;
  await database.admin.query(`create role ${role} login password 'x' connection limit ${most}`);
  onTestFinished(async () => {
    await database.admin.query(`drop role ${role}`);
    await database.drop();
  });
  const url = new URL(database.url);
  [url.username, url.password] = [role, 'x'];
  const options = { connectionString: url.href, applicationName: 'test', onError: () => {} };
  return (maxConnections: number) => openDatabase({ ...options, maxConnections });
}

test('with fewer connections than its pools want, all statements and transactions of two processes come through', async () => {
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
