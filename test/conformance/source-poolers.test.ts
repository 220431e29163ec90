/** Sources behind PgBouncer, and what it says if it lets no session in. */

import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasPgbouncer, type Pooler, startPgbouncer } from '../support/pgbouncer.ts';
import { caseRequest, outcomeOf, relation, useSourceCase } from '../support/source-cases.ts';
import { readAll } from '../support/source-tables.ts';
import { until } from '../support/until.ts';

const never = new AbortController().signal;

describe.skipIf(!hasPgbouncer).each(['transaction', 'session'] as const)(
  'behind a PgBouncer that pools by %s',
  (mode) => {
    const { server, shop, admin } = useSourceCase();
    let pooler: Pooler;
    /** Of the reader, through the pooler. */
    let pooled: { readonly connectionString: string };

    beforeAll(async () => {
      pooler = await startPgbouncer(server.url, mode);
      pooled = { connectionString: pooler.reach(shop.url) };
    });

    afterAll(() => pooler?.stop());

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
      const many = relation('many');
      const snapshot = await shop.source(many, pooled).open(caseRequest(), never);
      expect(snapshot.slices.length).toBeGreaterThan(1);
      const counting = snapshot.countRows(never);
      await shop.run('delete from shop.many where id % 2 = 0');
      const blocks = await readAll(snapshot, never);
      expect(blocks.reduce((sum, { rowCount }) => sum + rowCount, 0)).toBe(30_000);
      expect(await counting).toBe(30_000);
      await snapshot.close();
      // What one transaction has set is gone in the next. PgBouncer ends those of closed connections a moment later.
      const locks = () =>
        admin.query(
          `select from pg_locks where locktype = 'advisory' and pid in (select pid from pg_stat_activity where usename = $1)`,
          [shop.reader],
        );
      await expect.poll(async () => (await locks()).rows, { timeout: 10_000 }).toEqual([]);
    });

    test('a run waits for the transactions of others, by name, and not for its own', async () => {
      const reading = await shop.source({}, pooled).open(caseRequest(), never);
      const { interval } = caseRequest();
      const settle = (settleTimeoutMs: number) =>
        shop.source({}, { ...pooled, settleTimeoutMs }).settle(interval, never);
      expect((await settle(60_000)).settled).toBe(true);
      await admin.query('begin');
      const { settled, blockers } = await settle(3_000);
      expect(settled).toBe(false);
      // PgBouncer may just discard what a session of ours had set.
      const others = (blockers ?? []).filter(
        (each) => !/^process \d+ \(role \w+, application sluice-export, last/.test(each),
      );
      expect(others).toEqual([expect.stringMatching(/^process \d+ \(role /)]);
      await admin.query('rollback');
      await reading.close();
    });

    test('an abort cancels the statement at the server', async () => {
      await shop.create(
        `create view shop.slow as select id, team, at, pg_sleep(20)::text as v from shop.base where pg_sleep(20) is not null`,
      );
      const aborted = new AbortController();
      const opening = shop.source(relation('slow'), pooled).open(caseRequest(), aborted.signal);
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
      const busy = relation('busy');
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

    test('its own limits are named', async () => {
      const limits = { max_client_conn: 10, query_wait_timeout: 2 };
      const full = await startPgbouncer(server.url, mode, limits);
      const connectionString = full.reach(shop.url);
      const open = () => outcomeOf(shop.source({}, { connectionString, addressName: 'SHOP_URL' }));
      // Eight have all connections to the server, one more waits for one, two more are too many.
      const clients: Client[] = [];
      const join = async () => {
        const client = new Client({ connectionString });
        client.on('error', () => {});
        await client.connect();
        clients.push(client);
        return client;
      };
      for (let n = 0; n < 8; n += 1) await (await join()).query('begin');
      await join();
      expect(await open()).toMatch(
        /^source\.out_of_resources .*query_wait_timeout.*\. Raise query_wait_timeout of PgBouncer/,
      );
      // Until PgBouncer has seen that the last one left, it is full.
      await until(join);
      expect(await open()).toMatch(
        /^source\.out_of_resources SHOP_URL: .*\. Raise max_client_conn of PgBouncer/,
      );
      await Promise.all(clients.map((client) => client.end()));
      await full.stop();
    });

    test('what the pooler refuses is named with the setting', async () => {
      const url = new URL(pooled.connectionString);
      url.password = 'other';
      const options = { connectionString: url.href, addressName: 'SHOP_URL' };
      expect(await outcomeOf(shop.source({}, options))).toMatch(
        /^source\.access_refused SHOP_URL: /,
      );
    });

    test.skipIf(mode === 'session')('what it says says who must act', async () => {
      const openAt = async (
        more: Readonly<Record<string, string | number>>,
        change: (url: URL) => void = () => {},
        behind = server.url,
      ) => {
        const other = await startPgbouncer(behind, mode, more);
        const url = new URL(other.reach(shop.url));
        change(url);
        const options = {
          connectionString: url.href,
          addressName: 'SHOP_URL',
          connectTimeoutMs: 2_000,
        };
        const open = () => outcomeOf(shop.source(relation('paced'), options));
        const said = [await open()];
        // What PgBouncer has remembered.
        if (behind !== server.url) said.push(await open());
        await other.stop();
        return said;
      };
      await shop.create(
        `create view shop.paced as select id, team, at, pg_sleep(0.05)::text as v from shop.base`,
      );
      expect((await openAt({}, (url) => (url.username = 'stranger')))[0]).toMatch(
        /^source\.access_refused SHOP_URL: the pooler refused the user, the password or the database/,
      );
      const options = (url: URL) => url.searchParams.set('options', '-c geqo=off');
      expect((await openAt({}, options))[0]).toMatch(
        /^source\.access_refused SHOP_URL: PgBouncer refuses the parameter options of the address\./,
      );
      expect((await openAt({ pool_mode: 'statement' }))[0]).toMatch(
        /^source\.unsupported PgBouncer pools by statement\. Set its pool_mode/,
      );
      expect((await openAt({ query_timeout: 1 }))[0]).toBe(
        'source.timeout the limit of query_timeout of PgBouncer',
      );
      await shop.run(`alter role ${shop.reader} connection limit 0`);
      expect((await openAt({}))[0]).toMatch(
        /^source\.out_of_resources SHOP_URL: too many connections for role .* ALTER ROLE … CONNECTION LIMIT; 0 lets/,
      );
      await shop.run(`alter role ${shop.reader} connection limit -1`);
      const dead = new URL(server.url);
      dead.port = '1';
      expect(await openAt({ server_login_retry: 60 }, () => {}, dead.href)).toEqual([
        expect.stringMatching(
          /^source\.unavailable SHOP_URL: (what listens at its address let no session in|PgBouncer reaches no server)/,
        ),
        expect.stringMatching(
          /^source\.(failed SHOP_URL: PgBouncer cannot log in at its server|unavailable SHOP_URL: PgBouncer reaches no server)/,
        ),
      ]);
    });
  },
);
