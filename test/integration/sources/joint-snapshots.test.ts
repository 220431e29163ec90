/** Small requests that are opened at the same moment. */

import { asRole } from '../../support/template-database.ts';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { eventsModel } from '../../../src/foundation/domain/events-model.ts';
import { createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import type { Source, SourceRequest, SourceSnapshot } from '../../../src/rows/sources/source.ts';
import { createEmptyDatabase } from '../../support/database.ts';
import { endSessions, openSession } from '../../support/source-sessions.ts';
import { createEvents, eventsRequest, insertEvents, readAll } from '../../support/source-tables.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';
import { plainModel } from '../../support/plain-model.ts';

const never = new AbortController().signal;
const applicationName = 'joint snapshots';
const role = `joint_${process.pid}`;
const maxBytes = 512 * 1024;
const hour = (n: number) => new Date(Date.UTC(2024, 2, 1, n)).toISOString();

const types = { id: 'integer', price: 'numeric(10,2)', tags: 'text[]' };
const otherModel = (name: string) => plainModel(name, types, { tenantColumn: 'team_id' });
let address: string;
let source: Source;

const database = useStage(createEmptyDatabase);
beforeAll(async () => {
  const { admin: pool } = database;
  await pool.query(createEvents);
  // Empty, one row, some that share their times, as many as fit, and one more.
  const counts = [0, 1, 200, 999, 1_000];
  for (const [n, count] of counts.entries()) {
    if (count === 0) continue;
    const times = { start: hour(n), everyMs: 1_500, perInstant: 3 };
    await insertEvents(pool, { team: 1, count, ...times });
  }
  await insertEvents(pool, { team: 1, count: 40, start: hour(5), everyMs: 9, padding: 30_000 });
  await insertEvents(pool, { team: 2, count: 3, start: hour(1), everyMs: 9 });
  const columns = '(id int, team_id int, at timestamptz, price numeric(10,2), tags text[])';
  await pool.query(`
    create table items ${columns}; create table slow ${columns};
    insert into items select n, 1, '2024-03-01T01:30:00Z', n * 1.25, array['a"', null] from generate_series(1, 5) n;
    insert into slow select n, 1, '2024-03-01T01:30:00Z' from generate_series(1, 5) n;
    create view seen as select * from items;
    create role ${role} login password 'reader';
    grant pg_read_all_stats to ${role};
    grant select on all tables in schema public to ${role};
    alter table events enable row level security;
    create policy own on events to ${role} using (team_id = current_setting('sluice.tenant_key')::int);
    analyze`);
  address = asRole(database.url, role);
});
// A source remembers which project had a group that failed.
beforeEach(() => {
  source = createPostgresSource({
    connectionString: address,
    applicationName,
    keepConnectionMs: 60_000,
    plan: planModels([eventsModel, ...['items', 'slow', 'seen'].map(otherModel)]),
  });
});
afterEach(endSessions);
afterAll(async () => {
  await database?.admin.query(`drop owned by ${role}; drop role ${role}`);
});

const eventsOf = (n: number, more: Partial<SourceRequest> = {}, team = 1) =>
  eventsRequest(team, hour(n), hour(n + 1), more);
const ofModel = (model: string) => ({ ...eventsOf(1), model });
const openSmall = (request: SourceRequest, signal = never, bytes = maxBytes) =>
  source.openSmall(request, signal, bytes);

/** All that a snapshot shows; reads and closes it. */
async function contentOf(snapshot: SourceSnapshot) {
  const { columns, keyIndices, projection, slices, totalCount } = snapshot;
  const rows = (await readAll(snapshot, never)).flatMap(
    ({ rowCount, bytes, offsets, lengths, columns: { length: width } }) =>
      Array.from({ length: rowCount }, (_, row) =>
        Array.from({ length: width }, (_, place) => {
          const field = row * width + place;
          const [from = 0, length = -1] = [offsets[field], lengths[field]];
          return length < 0 ? null : bytes.toString('latin1', from, from + length);
        }),
      ),
  );
  const counted = await snapshot.countRows(never);
  const keys = snapshot.keySet();
  await snapshot.close();
  return { columns, keyIndices, projection, slices, totalCount, counted, keys, rows };
}

/** Transactions that the source has open. */
async function countOpen(): Promise<number> {
  const { rows } = await database.adminSql<{ count: number }>`
    select count(*)::int as count from pg_stat_activity
      where application_name = ${applicationName} and xact_start is not null`;
  return rows[0]?.count ?? 0;
}

const requests: Readonly<Record<string, SourceRequest>> = {
  empty: eventsOf(0),
  'one row': eventsOf(1),
  'some rows': eventsOf(2),
  'as many rows as fit': eventsOf(3),
  'a row more': eventsOf(4),
  'a query': eventsOf(2, {
    dslQuery: `SELECT event AS e, properties.n FROM events WHERE event <> 'event 1'`,
  }),
  'a list of events': eventsOf(2, { includeEvents: ['event 2'], excludeEvents: ['event 0'] }),
  'all columns': eventsOf(2, { select: 'columns' }),
  keys: eventsOf(2, { select: 'keys' }),
  'decoded values': ofModel('items'),
  'arrays as text': { ...ofModel('items'), nested: 'text' },
  'a view': ofModel('seen'),
  'more bytes than fit': eventsOf(5),
};
/** What is not small, or needs other statements, is opened alone: it holds a transaction until it is closed. */
const alone = ['a row more', 'keys', 'more bytes than fit'];

describe('together', () => {
  test('each request gets what it gets alone', async () => {
    const all = Object.entries(requests);
    const opened = await Promise.all(all.map(([, request]) => openSmall(request)));
    await until(async () => (await countOpen()) === alone.length);
    const together = await Promise.all(opened.map(contentOf));
    for (const [index, [name, request]] of all.entries()) {
      expect(together[index], name).toEqual(await contentOf(await source.open(request, never)));
    }
    expect(together.map(({ rows }) => rows.length)).toContain(200);
  });

  test('they share a snapshot, which no connection holds any more', async () => {
    const before = await Promise.all([openSmall(eventsOf(1)), openSmall(eventsOf(2))]);
    await until(async () => (await countOpen()) === 0);
    await insertEvents(database.admin, { team: 3, count: 1, start: hour(1), everyMs: 1 });
    const after = await openSmall(eventsOf(2));
    const [first, second] = before.map(({ snapshot }) => snapshot);
    expect(first).toBe(second);
    expect(after.snapshot).not.toBe(first);
    const contents = await Promise.all([...before, after].map(contentOf));
    expect(contents.map(({ rows }) => rows.length)).toEqual([1, 200, 200]);
  });

  test('a project never shares: row-level security shows each its own rows', async () => {
    const asked = [eventsOf(1), eventsOf(1, {}, 2), eventsOf(2)];
    const opened = await Promise.all(asked.map((request) => openSmall(request)));
    const contents = await Promise.all(opened.map(contentOf));
    expect(contents.map(({ rows }) => rows.length)).toEqual([1, 3, 200]);
  });
});

/** The answers to these requests and to one that nothing is wrong with. */
async function besideGood(...others: readonly Promise<SourceSnapshot>[]) {
  const good = openSmall(eventsOf(2));
  const settled = await Promise.allSettled(others);
  expect((await contentOf(await good)).rows).toHaveLength(200);
  return settled.map((one) => (one.status === 'rejected' ? one.reason : one.value));
}

describe('a request', () => {
  test('with a query that cannot be planned fails alone, and the others share', async () => {
    const bad = openSmall(eventsOf(2, { dslQuery: 'SELECT nothing FROM events' }));
    const other = openSmall(eventsOf(1));
    const [error, snapshot] = await besideGood(bad, other);
    expect(error).toMatchObject({ code: 'query.invalid' });
    await (snapshot as SourceSnapshot).close();
  });

  test('whose rows fail fails alone, with its own error', async () => {
    const query = 'SELECT CAST(distinct_id AS int) AS id FROM events';
    const failing = await openSmall(eventsOf(2, { dslQuery: query }));
    const apart = await source.open(eventsOf(2, { dslQuery: query }), never);
    const errorOf = (snapshot: SourceSnapshot) =>
      readAll(snapshot, never).then(
        () => null,
        ({ code, detail }) => ({ code, detail }),
      );
    const [error] = await Promise.all([errorOf(failing), besideGood()]);
    expect(error).toMatchObject({ code: expect.stringMatching(/^(query|source)\./) });
    expect(error).toEqual(await errorOf(apart));
    await Promise.all([failing.close(), apart.close()]);
  });

  test('that is aborted leaves the others', async () => {
    const aborting = new AbortController();
    const aborted = openSmall(eventsOf(1), aborting.signal);
    aborting.abort(new Error('enough'));
    expect(await besideGood(aborted)).toEqual([new Error('enough')]);
  });

  test('that waits for a lock does not hold up the others for long', async () => {
    const session = await openSession(database.adminUrl);
    await session.query('begin; lock table slow in access exclusive mode');
    const waiting = openSmall(ofModel('slow'));
    let hasOpened = false;
    void waiting.then(() => (hasOpened = true));
    await besideGood();
    expect(hasOpened).toBe(false);
    await session.query('rollback');
    expect((await contentOf(await waiting)).rows).toHaveLength(5);
    // Without a limit of its own, the group would end when the server has been silent for 150 s.
  }, 60_000);

  test('whose server process is killed is opened again, like the others', async () => {
    const session = await openSession(database.adminUrl);
    await session.query('begin; lock table slow in access exclusive mode');
    const waiting = openSmall(ofModel('slow'));
    const good = openSmall(eventsOf(2));
    await until(async () => {
      const { rowCount } =
        await database.adminSql`select pg_terminate_backend(pid) from pg_stat_activity
          where application_name = ${applicationName} and wait_event_type = 'Lock'`;
      return rowCount === 1;
    });
    expect((await contentOf(await good)).rows).toHaveLength(200);
    await session.query('rollback');
    expect((await contentOf(await waiting)).rows).toHaveLength(5);
  });
});
