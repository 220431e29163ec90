/** What is done to a database beside a run: what cannot write is not waited for, all else has its name in the run. */

import { Client } from 'pg';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { findReaders } from '../../src/rows/sources/postgres/blockers.ts';
import type { Look } from '../../src/rows/sources/postgres/live-transactions.ts';
import { withClient } from '../support/drop-database.ts';
import {
  caseRequest,
  openSourceCase,
  readHour,
  relation,
  startSourceServer,
  useSourceCase,
} from '../support/source-cases.ts';
import { readAll } from '../support/source-tables.ts';
import { choosePrograms } from '../support/stock-postgres.ts';
import { until } from '../support/until.ts';

const never = new AbortController().signal;

describe('maintenance of a source', () => {
  const { server, shop } = useSourceCase();
  let clients: Client[] = [];

  beforeAll(async () => {
    await shop.create(`create table shop.large (id int primary key, v text);
      insert into shop.large select g, repeat(md5(g::text), 60) from generate_series(1, 20000) g;
      create index large_v on shop.large (md5(v));
      create function shop.slowly(int) returns int language plpgsql immutable as $$ begin perform pg_sleep(0.01); return $1; end $$;
      create table shop.pace (seconds float8); insert into shop.pace values (0);
      create materialized view shop.kept as select b.*, pg_sleep(p.seconds)::text as slept from shop.base b, shop.pace p;
      create unique index on shop.kept (id)`);
  });

  afterEach(async () => {
    await shop.run(
      `select pg_terminate_backend(pid, 10000) from pg_stat_activity where application_name = 'upkeep'`,
    );
    await Promise.all(clients.map((client) => client.end().catch(() => {})));
    clients = [];
  });

  /** Begins a statement of another session, and waits until the server executes it. */
  async function begin(
    sql: string,
    settings = '',
  ): Promise<{ pid: number; done: Promise<unknown> }> {
    const client = new Client({ connectionString: server.url, application_name: 'upkeep' });
    client.on('error', () => {});
    await client.connect();
    clients.push(client);
    if (settings) await client.query(settings);
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
    const pid = rows[0]?.pid ?? 0;
    const done = client.query(sql);
    done.catch(() => {});
    await until(async () => (await isActive(`pid = ${pid}`)) === 1);
    return { pid, done };
  }

  const isActive = (condition: string): Promise<number | null> =>
    withClient(server.url, async (client) => {
      const { rowCount } = await client.query(
        `select from pg_stat_activity where state = 'active' and ${condition} and pid <> pg_backend_pid()`,
      );
      return rowCount;
    });

  const settle = (settleTimeoutMs: number) =>
    shop.source({}, { settleTimeoutMs }).settle(caseRequest().interval, never);

  test.each([
    ['VACUUM', 'vacuum shop.large', `set vacuum_cost_delay = '100ms'; set vacuum_cost_limit = 1`],
    ['an index that is made', 'create index concurrently made on shop.large (v)', ''],
    ['an index that is made anew', 'REINDEX INDEX CONCURRENTLY shop.large_v', ''],
    ['an index that is dropped', 'drop index concurrently shop.large_v', ''],
    ['ANALYZE', 'analyze shop.large', `set vacuum_cost_delay = '100ms'; set vacuum_cost_limit = 1`],
    ['CLUSTER', 'CLUSTER shop.large USING large_pkey;', ''],
    ['an index that is made at once', 'create index on shop.large (shop.slowly(id))', 'select'],
    ['statistics that are created', 'create statistics shop.st on id, v from shop.large', 'vacuum'],
  ])('%s is not waited for', async (_case, sql, settings) => {
    // It waits for the snapshot of a run, which lasts.
    const run = new Client({ connectionString: shop.url });
    await run.connect();
    clients.push(run);
    await run.query(
      `begin isolation level repeatable read read only; select pg_advisory_xact_lock_shared(1936483173, 2020635252); select count(*) from shop.large`,
    );
    if (settings === 'vacuum') {
      const slow = `set vacuum_cost_delay = '100ms'; set vacuum_cost_limit = 1`;
      await begin('vacuum shop.large', slow);
    }
    const upkeep = await begin(sql, settings.startsWith('set') ? settings : '');
    const isLasting = /^(set|select)/.test(settings)
      ? 'true'
      : `wait_event in ('virtualxid', 'relation')`;
    await until(async () => (await isActive(`pid = ${upkeep.pid} and ${isLasting}`)) === 1);
    expect(await settle(20_000)).toMatchObject({ settled: true, blockers: [] });
    expect(await isActive(`pid = ${upkeep.pid}`)).toBe(1);
  });

  test.each([
    [
      'an index that is made in a transaction',
      'create index made_in on shop.large (v); select pg_sleep(60)',
    ],
    ['a statement that only mentions one', 'select pg_sleep(60) /* vacuum */'],
    ['ANALYZE in a longer transaction', 'analyze shop.base; select pg_sleep(60)'],
    ['a message that begins with one', 'cluster shop.base using base_pkey; select pg_sleep(60)'],
    ['a function', `do $$ begin /* create index concurrently */ perform pg_sleep(60); end $$`],
  ])('%s is waited for, by name', async (_case, sql) => {
    const writer = await begin(sql, 'begin');
    expect(await settle(1_500)).toMatchObject({
      settled: false,
      // A server with time to spare makes an index by several processes.
      blockers: expect.arrayContaining([
        expect.stringMatching(new RegExp(`^process ${writer.pid} .*application upkeep`)),
      ]),
    });
  });

  test('an index is waited for by name if a trigger notes it', async () => {
    await shop.run(`create function shop.note() returns event_trigger language plpgsql as
        $$ begin insert into shop.base values (2000, 1, '2024-03-01 00:30Z', 'by the trigger'); end $$;
      create event trigger notes on ddl_command_end when tag in ('CREATE INDEX') execute function shop.note()`);
    const run = new Client({ connectionString: server.url, application_name: 'upkeep' });
    run.on('error', () => {});
    await run.connect();
    clients.push(run);
    await run.query('begin isolation level repeatable read; select count(*) from shop.large');
    const making = await begin('create index concurrently noted on shop.large (v)');
    await until(
      async () => (await isActive(`pid = ${making.pid} and wait_event = 'virtualxid'`)) === 1,
    );
    const settled = await settle(1_500);
    expect(settled.blockers).toContainEqual(
      expect.stringMatching(new RegExp(`^process ${making.pid} .*application upkeep`)),
    );
    await run.query('rollback');
    await making.done;
    expect(await shop.read()).toHaveLength(101);
    await shop.run(
      `drop event trigger notes; drop function shop.note; delete from shop.base where id = 2000`,
    );
  });

  const definer = (name: string, from: string, to: string) =>
    `create function trial.${name}(${from}) returns ${to} language plpgsql security definer as
       $$ begin insert into trial.put_rows values (1); return ${to === 'trigger' ? 'new' : '1'}; end $$;
     revoke execute on function trial.${name}(${from}) from public;`;

  /** What leads to a function that writes as its owner, and whether a role that may not EXECUTE it still counts as one that only reads. */
  test.each<[string, string, string, boolean]>([
    ['itself', '', 'select trial.put(1, 2)', true],
    [
      'an aggregate',
      'create aggregate trial.tally(int) (sfunc = trial.put, stype = int, initcond = 0)',
      'select trial.tally(1)',
      false,
    ],
    [
      'the order of a type',
      `create type trial.pair as (a int); ${definer('order_of', 'trial.pair, trial.pair', 'int')}
       create function trial.less(trial.pair, trial.pair) returns bool language sql as 'select $1.a < $2.a';
       create operator trial.<~ (leftarg = trial.pair, rightarg = trial.pair, function = trial.less);
       create operator class trial.pair_order default for type trial.pair using btree as
         operator 1 trial.<~, function 1 trial.order_of(trial.pair, trial.pair)`,
      'select a::trial.pair from (values (row(1)), (row(2))) v (a) order by a::trial.pair using operator(trial.<~)',
      false,
    ],
    [
      'an operator',
      'create operator trial.<~> (leftarg = int, rightarg = int, function = trial.put)',
      'select 1 operator(trial.<~>) 2',
      false,
    ],
    [
      'a cast',
      `create type trial.pair as (a int); ${definer('as_number', 'trial.pair', 'int')}
       create cast (trial.pair as int) with function trial.as_number`,
      'select (row(1)::trial.pair)::int',
      false,
    ],
    [
      'a policy',
      `create table trial.policed as select 1 as a; alter table trial.policed enable row level security;
       create policy p on trial.policed using (trial.put(a, a) > 0)`,
      'select * from trial.policed',
      true,
    ],
    ['a view', 'create view trial.v as select trial.put(1, 1)', 'select * from trial.v', true],
    [
      'a default',
      'create table trial.filled (a int default trial.put(1, 1))',
      'insert into trial.filled default values',
      true,
    ],
    [
      'a trigger',
      `create table trial.noted (a int); ${definer('note', '', 'trigger')}
       create trigger t before insert on trial.noted for each row execute function trial.note()`,
      'insert into trial.noted values (1)',
      true,
    ],
    [
      'a domain',
      'create domain trial.checked as int check (trial.put(value, value) > 0)',
      'select 1::trial.checked',
      true,
    ],
    [
      'the right to maintain',
      `create materialized view trial.made as select trial.put(1, 1);
       do $$ begin execute 'grant maintain on trial.made to public'; exception when syntax_error then revoke all on trial.put_rows from public; end $$`,
      'refresh materialized view trial.made',
      false,
    ],
  ])('a role that reaches a function that writes by %s', async (way, sql, used, isReader) => {
    const [admin, reader] = [server.url, shop.url].map(
      (connectionString) => new Client({ connectionString }),
    ) as [Client, Client];
    clients.push(admin, reader);
    await Promise.all([admin.connect(), reader.connect()]);
    await admin.query(`drop schema if exists trial cascade; create schema trial; create table trial.put_rows (a int);
      ${definer('put', 'int, int', 'int')} ${sql};
      grant usage on schema trial to public; grant select on all tables in schema trial to public`);
    const { rows } = await admin.query(
      `select oid::int8 as role, current_setting('server_version_num')::int < 170000 as "isOld" from pg_roles where rolname = $1`,
      [shop.reader],
    );
    const { role, isOld } = rows[0];
    const look = { sessions: [{ role: Number(role) }] } as unknown as Look;
    const readers = await findReaders(admin, look, never);
    // What the administrator wrote while it was made does not count.
    await admin.query('truncate trial.put_rows');
    await reader.query('set default_transaction_read_only = off');
    const refusal = await reader.query(used).then(() => null, String);
    const { rowCount: written } = await admin.query('select from trial.put_rows');
    expect([...readers], `${way}: ${refusal}`).toEqual(
      isReader || (isOld && way === 'the right to maintain') ? [Number(role)] : [],
    );
    expect(written === 0 || readers.size === 0, 'what writes is no reader').toBe(true);
    await admin.query('drop schema trial cascade');
  });

  test.each<[string, string, readonly string[]]>([
    ['a change of a partition', 'parted', ['alter table shop.part_1 alter v set not null']],
    ['a partition that leaves', 'parted', ['alter table shop.parted detach partition shop.part_1']],
    ['a new index of a partition', 'parted', ['reindex table shop.part_1']],
    ['a TRUNCATE behind views', 'over_view', ['truncate shop.held']],
    ['a change of a view', 'over_view', ['drop view shop.over_view']],
    ['VACUUM FULL', 'held', ['vacuum full shop.held']],
    [
      'a swap of tables',
      'held',
      [
        'begin',
        'alter table shop.held rename to gone',
        'alter table shop.coming rename to held',
        'commit',
      ],
    ],
  ])('an open snapshot lets %s go on', async (_case, name, statements) => {
    await shop.create(`drop table if exists shop.held, shop.coming, shop.gone, shop.parted, shop.part_1 cascade;
      create table shop.held (like shop.base including all); insert into shop.held select * from shop.base;
      create table shop.coming (like shop.held including all);
      create view shop.over_held as select * from shop.held; create view shop.over_view as select * from shop.over_held;
      create table shop.parted (like shop.base) partition by range (at);
      create table shop.part_1 partition of shop.parted for values from ('2024-01-01') to ('2025-01-01');
      insert into shop.parted select * from shop.base; create index on shop.parted (team, at)`);
    const held = relation(name);
    const snapshot = await shop.source(held, { lockWaitMs: 300 }).open(caseRequest(), never);
    await shop.run(`set lock_timeout = '20s'`);
    for (const statement of statements) await shop.run(statement);
    await shop.run('reset lock_timeout');
    await expect(readAll(snapshot, never)).rejects.toMatchObject({ code: 'source.lock_released' });
    await snapshot.close();
  });

  test('rows of a materialized view that is refreshed meanwhile come by a look-back', async () => {
    const kept = relation('kept');
    await shop.run(`update shop.pace set seconds = 0.02;
      insert into shop.base values (1000, 1, '2024-03-01 00:30Z', 'late')`);
    const refresh = await begin('refresh materialized view concurrently shop.kept');
    const source = shop.source(kept, { settleTimeoutMs: 500 });
    const request = caseRequest();
    const settled = await source.settle(request.interval, never);
    expect(settled).toMatchObject({
      settled: false,
      blockers: [expect.stringMatching(new RegExp(`^process ${refresh.pid} `))],
    });
    const seen = await readHour(source, request);
    expect(seen.count).toBe(100);
    await refresh.done;
    expect((await source.lookAgain(request, seen, null, never)).mayHaveLateRows).toBe(true);
    expect((await source.describe(request, never)).warnings).toEqual([
      expect.stringMatching(/shop\.kept is a materialized view: .* look_back_hours/),
    ]);
    await shop.run(`delete from shop.base where id = 1000; update shop.pace set seconds = 0`);
  });
});

describe.skipIf(choosePrograms() === null)('autovacuum to prevent wraparound', () => {
  // It takes 100,000 transactions.
  test('is not waited for', async () => {
    const server = await startSourceServer({
      autovacuum_freeze_max_age: '100000',
      autovacuum_naptime: '1s',
      autovacuum_vacuum_cost_delay: '100ms',
      autovacuum_vacuum_cost_limit: '1',
      synchronous_commit: 'off',
    });
    const shop = await openSourceCase(server);
    const admin = new Client({ connectionString: server.url });
    await admin.connect();
    await admin.query(
      'do $$ begin for i in 1..101000 loop perform txid_current(); commit; end loop; end $$',
    );
    const count = async () => {
      const { rowCount } = await admin.query(
        `select from pg_stat_activity where query like '%(to prevent wraparound)' and datname = current_database()`,
      );
      return rowCount;
    };
    await until(count);
    const { interval } = caseRequest();
    const source = shop.source({}, { settleTimeoutMs: 20_000 });
    expect(await source.settle(interval, never)).toMatchObject({ settled: true, blockers: [] });
    expect(await count()).toBeGreaterThan(0);
    await admin.end();
    await shop.close();
    await server.stop();
  });
});
