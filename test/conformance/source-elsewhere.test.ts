/** Sources that are reached through a pooler, and subscribers of logical replication. */

import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findPostgresPrograms, startPostgresOf } from '../support/debian-postgres.ts';
import { hasPgbouncer, type Pooler, startPgbouncer } from '../support/pgbouncer.ts';
import {
  caseRequest,
  openSourceCase,
  type SourceCase,
  type SourceServer,
  sourceServers,
} from '../support/source-cases.ts';
import { readAll } from '../support/source-tables.ts';
import { until } from '../support/until.ts';

const never = new AbortController().signal;
const [embedded] = sourceServers;

describe.skipIf(!hasPgbouncer).each(['transaction', 'session'] as const)(
  'behind a PgBouncer that pools by %s',
  (mode) => {
    let server: SourceServer;
    let shop: SourceCase;
    let pooler: Pooler;
    let admin: Client;
    /** Of the reader, through the pooler. */
    let pooled: { readonly connectionString: string };

    beforeAll(async () => {
      if (!embedded) throw new Error('there is no server');
      server = await embedded[1]();
      shop = await openSourceCase(server);
      pooler = await startPgbouncer(server.url, mode);
      pooled = { connectionString: pooler.reach(shop.url) };
      admin = new Client({ connectionString: server.url });
      await admin.connect();
    });

    afterAll(async () => {
      await admin?.end();
      await pooler?.stop();
      await shop?.close();
      await server?.stop();
    });

    const atWork = async () => {
      const { rowCount } = await admin.query(
        `select from pg_stat_activity where usename = $1 and wait_event = 'PgSleep'`,
        [shop.reader],
      );
      return rowCount;
    };

    test('the rows come by several connections with one snapshot', async () => {
      await shop.create(`create table shop.many (like shop.base including all);
        insert into shop.many select g, 1, timestamptz '2024-03-01 00:00Z' + g * interval '100 ms', 'v' from generate_series(1, 30000) g`);
      const many = { relation: { schema: 'shop', name: 'many' } };
      const snapshot = await shop.source(many, pooled).open(caseRequest(), never);
      expect(snapshot.slices.length).toBeGreaterThan(1);
      const counting = snapshot.countRows(never);
      await shop.run('delete from shop.many where id % 2 = 0');
      const blocks = await readAll(snapshot, never);
      expect(blocks.reduce((sum, { rowCount }) => sum + rowCount, 0)).toBe(30_000);
      expect(await counting).toBe(30_000);
      await snapshot.close();
      // What one transaction has set is gone in the next.
      const { rows } = await admin.query(
        `select from pg_locks where locktype = 'advisory' and pid in (select pid from pg_stat_activity where usename = $1)`,
        [shop.reader],
      );
      expect(rows).toEqual([]);
    });

    test('a run waits for the transactions of others, by name, and not for its own', async () => {
      const reading = await shop.source({}, pooled).open(caseRequest(), never);
      const { interval } = caseRequest();
      const settle = (settleTimeoutMs: number) =>
        shop.source({}, { ...pooled, settleTimeoutMs }).settle(interval, never);
      expect((await settle(60_000)).settled).toBe(true);
      await admin.query('begin');
      expect(await settle(3_000)).toMatchObject({
        settled: false,
        blockers: [expect.stringMatching(/^process \d+ \(role /)],
      });
      await admin.query('rollback');
      await reading.close();
    });

    test('an abort cancels the statement at the server', async () => {
      await shop.create(
        `create view shop.slow as select id, team, at, pg_sleep(20)::text as v from shop.base where pg_sleep(20) is not null`,
      );
      const aborted = new AbortController();
      const opening = shop
        .source({ relation: { schema: 'shop', name: 'slow' } }, pooled)
        .open(caseRequest(), aborted.signal);
      opening.catch(() => {});
      await until(async () => (await atWork()) === 1);
      aborted.abort(new Error('enough'));
      await expect(opening).rejects.toThrow('enough');
      await until(async () => (await atWork()) === 0, { timeoutMs: 10_000 });
    });

    test('the table is released for those who wait for it', async () => {
      await shop.create(`create table shop.busy (like shop.base including all);
        insert into shop.busy select g, 1, timestamptz '2024-03-01 00:00Z' + g * interval '20 ms', repeat('x', 900)
          from generate_series(1, 30000) g`);
      const busy = { relation: { schema: 'shop', name: 'busy' } };
      const snapshot = await shop
        .source(busy, { ...pooled, lockWaitMs: 300, sliceMs: 3_600_000 })
        .open(caseRequest(), never);
      const rows = snapshot
        .read(snapshot.slices[0] ?? caseRequest().interval, never)
        [Symbol.asyncIterator]();
      expect((await rows.next()).done).toBe(false);
      await shop.run(`set local lock_timeout = '20s'; alter table shop.busy add x int`);
      const rest = async () => {
        for (let next = await rows.next(); !next.done; ) next = await rows.next();
        return snapshot.countRows(never);
      };
      await expect(rest()).rejects.toMatchObject({ code: 'source.lock_released' });
      await snapshot.close();
    });

    test('what the pooler refuses is named with the setting', async () => {
      const url = new URL(pooled.connectionString);
      url.password = 'other';
      const options = { connectionString: url.href, addressName: 'SHOP_URL' };
      await expect(shop.source({}, options).open(caseRequest(), never)).rejects.toMatchObject({
        code: 'source.access_refused',
        detail: expect.stringMatching(/^SHOP_URL: /),
      });
    });
  },
);

const bin = findPostgresPrograms();

describe.skipIf(bin === null)('a subscriber of logical replication', () => {
  let server: SourceServer;
  let shop: SourceCase;
  let publisher: Client;

  beforeAll(async () => {
    server = await startPostgresOf(bin ?? '', { wal_level: 'logical' });
    const at = (database: string) => {
      const url = new URL(server.url);
      url.pathname = `/${database}`;
      return url.href;
    };
    shop = await openSourceCase(server);
    await shop.run('create database publisher');
    publisher = new Client({ connectionString: at('publisher') });
    await publisher.connect();
    await publisher.query(`create schema shop;
      create table shop.base (id bigint primary key, team int not null, at timestamptz not null default now(), v text);
      create publication ours for table shop.base`);
    // In one cluster the slot must be there before.
    await publisher.query(`select pg_create_logical_replication_slot('ours', 'pgoutput')`);
    await shop.run(
      `create subscription ours connection '${at('publisher')}' publication ours with (create_slot = false, copy_data = false)`,
    );
  });

  afterAll(async () => {
    await shop?.run('alter subscription ours disable');
    await shop?.run('alter subscription ours set (slot_name = none)');
    await shop?.run('drop subscription ours');
    await publisher?.end();
    await server?.stop();
  });

  test('settles beside the replication, and finds rows that come late', async () => {
    const source = shop.source({}, { settleTimeoutMs: 30_000 });
    const request = caseRequest();
    const settled = await source.settle(request.interval, never);
    expect(settled).toMatchObject({ settled: true, blockers: [] });
    const snapshot = await source.open(request, never);
    await readAll(snapshot, never);
    const seen = { snapshot: snapshot.snapshot, digest: null, ...snapshot.keySet() };
    await snapshot.close();
    expect(seen.count).toBe(100);
    const earlier = { ...seen, count: 100 };
    expect((await source.lookAgain(request, earlier, null, never)).mayHaveLateRows).toBe(false);
    await publisher.query(`insert into shop.base values (1000, 1, '2024-03-01 00:30Z', 'late')`);
    await until(
      async () => (await source.lookAgain(request, earlier, null, never)).mayHaveLateRows,
    );
  });

  test('is warned of: no run can wait for its rows', async () => {
    const warning =
      /Logical replication writes the rows of shop\.base: .* Only LATE_LOOKBACK_HOURS finds late rows\.$/;
    expect(await shop.check()).toEqual([expect.stringMatching(warning)]);
    const { warnings } = await shop.source().describe(caseRequest(), never);
    expect(warnings).toEqual([expect.stringMatching(warning)]);
  });
});
