/** Rows, columns and sessions of a real PostgreSQL. */

import { Client } from 'pg';
import { describe, expect, test } from 'vitest';
import type { Source } from '../../src/rows/sources/source.ts';
import { atNight, firstByDay } from '../support/nightly.ts';
import { plainColumn } from '../support/plain-model.ts';
import { caseRequest, readHour, relation, useSourceCase } from '../support/source-cases.ts';
import { until } from '../support/until.ts';

const never = new AbortController().signal;

const { server, shop, admin } = useSourceCase();

describe('functions behind a view', () => {
  test('find operators and tables by the path of the role', async () => {
    await shop.run(`create extension if not exists citext`);
    await shop.create(`
        create function public.same(citext, citext) returns boolean language plpgsql stable as
          $$ begin return $1 = $2; end $$;
        create function public.same_too(citext, citext) returns boolean language sql stable as 'select $1 = $2';
        create table public.accounts (id int, plan text); insert into public.accounts values (1, 'pro');
        grant select on public.accounts to ${shop.reader};
        create function public.plan_of(int) returns text language plpgsql stable as
          $$ begin return (select plan from accounts where id = $1); end $$;
        create function public.plan_too(int) returns text language sql stable as
          'select plan from accounts where id = $1';
        create view shop.compared as select id, team, at, concat(
          public.same('A', 'a'), public.same_too('A', 'a'), public.plan_of(1), public.plan_too(1)) as v from shop.base`);
    expect((await shop.read(relation('compared')))[0]).toEqual({ id: 1, v: 'ttpropro' });
    await shop.run(`create schema other; grant usage on schema other to ${shop.reader};
        create table other.accounts (id int, plan text); insert into other.accounts values (1, 'other');
        grant select on other.accounts to ${shop.reader};
        alter role ${shop.reader} set search_path = other, public`);
    expect((await shop.read(relation('compared')))[0]).toEqual({ id: 1, v: 'ttotherother' });
    await shop.run(`alter role ${shop.reader} reset search_path`);
  });

  test('and the statements of Sluice keep their meaning', async () => {
    await shop.run(`create schema evil; grant usage on schema evil to ${shop.reader};
        create function evil.boom() returns boolean language plpgsql as $$ begin raise 'called'; end $$;
        create function evil.no(text, text) returns boolean language sql as 'select evil.boom()';
        create function evil.no(bigint, bigint) returns boolean language sql as 'select evil.boom()';
        create function evil.no(oid, integer) returns boolean language sql as 'select evil.boom()';
        create function evil.no(oid, regclass) returns boolean language sql as 'select evil.boom()';
        create function evil.join(text, text) returns text language sql as 'select evil.boom()::text';
        create function evil.join(text, bigint) returns text language sql as 'select evil.boom()::text';
        create function evil.upper(text) returns text language sql as 'select evil.boom()::text';
        create operator evil.= (leftarg = text, rightarg = text, function = evil.no);
        create operator evil.= (leftarg = bigint, rightarg = bigint, function = evil.no);
        create operator evil.= (leftarg = oid, rightarg = regclass, function = evil.no);
        create operator evil.>= (leftarg = oid, rightarg = integer, function = evil.no);
        create operator evil.|| (leftarg = text, rightarg = text, function = evil.join);
        create operator evil.|| (leftarg = text, rightarg = bigint, function = evil.join);
        alter role ${shop.reader} set search_path = evil, pg_catalog`);
    const dslQuery = `SELECT id, upper(v) || id AS v FROM rows WHERE v = 'v7' AND id IN (7, 8)`;
    expect(await shop.read({}, { dslQuery })).toEqual([{ id: 7, v: 'V77' }]);
    expect(await shop.check()).toEqual([]);
    await shop.run(`alter role ${shop.reader} reset search_path`);
  });

  test('have their schema in the names of types', async () => {
    await shop.create(`
        create type public.mood as enum ('good'); create type shop.mood as enum ('bad');
        create table shop.moods (id bigint primary key, team int, at timestamptz, a public.mood, b shop.mood, c public.mood[])`);
    await shop.run(`alter role ${shop.reader} set search_path = shop, public`);
    const columns = [
      plainColumn('a', 'public.mood'),
      plainColumn('b', 'shop.mood'),
      plainColumn('c', 'public.mood[]'),
    ];
    const source = shop.source({ ...relation('moods'), columns });
    const { columns: described } = await source.describe(caseRequest(), never);
    expect(described.map(({ sourceType }) => sourceType)).toEqual(
      columns.map(({ sourceType }) => sourceType),
    );
    await shop.run(`alter role ${shop.reader} reset search_path`);
  });
});

describe('a column that has another type than in the model', () => {
  const retyped = relation('retyped');
  const words = (found: string, declared: string) =>
    `column v is ${found} in the database, but ${declared} in the model rows`;

  test('stops run, form and check in the same words', async () => {
    await shop.create(`create table shop.retyped (like shop.base including all);
        insert into shop.retyped select id, team, at, id::text from shop.base`);
    expect(await shop.read(retyped)).toHaveLength(100);
    await shop.run('alter table shop.retyped alter column v type int using v::int');
    const refused = { code: 'source.schema_changed', detail: words('integer', 'text') };
    await expect(shop.read(retyped)).rejects.toMatchObject(refused);
    const describing = shop.source(retyped).describe(caseRequest(), never);
    await expect(describing).rejects.toMatchObject(refused);
    const small = shop.source(retyped).openSmall(caseRequest(), never, 1_000_000);
    await expect(small).rejects.toMatchObject(refused);
    expect(await shop.check(retyped)).toContainEqual(
      expect.stringContaining(`error: ${refused.detail}`),
    );
    // A query that does not read the column is not concerned.
    const dslQuery = 'SELECT id FROM rows WHERE id = 3';
    expect(await shop.read(retyped, { dslQuery })).toEqual([{ id: 3 }]);
    const uses = { dslQuery: `SELECT id FROM rows WHERE v = '3'` };
    await expect(shop.read(retyped, uses)).rejects.toMatchObject(refused);
  });

  test('is followed if the model says so, and the log of the run says it', async () => {
    const changes = { ...retyped, onSchemaChange: 'follow' } as const;
    expect((await shop.read(changes))[6]).toEqual({ id: 7, v: 7 });
    const snapshot = await shop.source(changes).open(caseRequest(), never);
    await snapshot.close();
    expect(snapshot.typeChanges).toEqual([
      'The type of column v has changed: it is integer in the database, and text in the model. on_schema_change allows it.',
    ]);
    expect(snapshot.columns[1]).toMatchObject({ type: 'int4', sourceType: 'integer' });
    expect(await shop.check(changes)).toEqual([
      'warning: The type of column v has changed: it is integer in the database, and text in the model. on_schema_change allows it.',
    ]);
  });

  test('other spellings and domains are the same type', async () => {
    await shop.create(`create domain shop.amount as numeric(10,2);
        create table shop.spelled (id bigint primary key, team int, at timestamptz not null, a shop.amount, b varchar(9), c timestamp(3), d shop.amount[])`);
    const columns = [
      plainColumn('a', 'shop.amount'),
      plainColumn('a', 'numeric'),
      plainColumn('b', 'varchar(9)'),
      plainColumn('b', 'character varying'),
      plainColumn('c', 'timestamp without time zone'),
      plainColumn('d', 'shop.amount[]'),
    ];
    for (const column of columns) {
      expect(await shop.read({ ...relation('spelled'), columns: [column] })).toEqual([]);
    }
  });
});

atNight(
  'an interval column that is no timestamptz is refused for a date within a day, and warned of for a timestamp',
  async () => {
    await shop.create(`
        create table shop.dated (id bigint primary key, team int not null, day date not null, v text);
        create table shop.local (id bigint primary key, team int not null, day timestamp not null, v text)`);
    const dated = { ...relation('dated'), intervalColumn: 'day' };
    const local = { ...dated, ...relation('local') };
    for (const select of ['rows', 'keys'] as const) {
      await expect(
        shop.source(dated).describe(caseRequest({ select }), never),
      ).rejects.toMatchObject({
        code: 'source.model_invalid',
        detail: expect.stringMatching(
          /interval column is a date, .* does not end at midnight in UTC/,
        ),
      });
    }
    const [start, end] = ['2024-03-01T00:00:00Z', '2024-03-02T00:00:00Z'].map(Date.parse) as [
      number,
      number,
    ];
    const ofDay = await shop
      .source(dated)
      .describe(caseRequest({ interval: { start, end } }), never);
    expect(ofDay.warnings).toEqual([expect.stringMatching(/^day is date, .* midnight in UTC/)]);
    const ofLocal = await shop.source(local).describe(caseRequest(), never);
    expect(ofLocal.warnings).toEqual([
      expect.stringMatching(/^day is timestamp without time zone, .* UTC/),
    ]);
    expect(await shop.check(dated)).toContainEqual(
      expect.stringMatching(/^warning: day is date, .*rows .* that arrive after/),
    );
    expect(await shop.check(local)).toContainEqual(
      expect.stringMatching(/^warning: day is timestamp without time zone/),
    );
  },
);

atNight('rows that no run can wait for, and columns without a right, are warned of', async () => {
  await shop.create(`create materialized view shop.kept as select * from shop.base;
      create view shop.of_kept as select * from shop.kept;
      create table shop.partly (like shop.base including all); insert into shop.partly select * from shop.base`);
  const refreshed = expect.stringMatching(/shop\.kept is a materialized view: .* look_back_hours/);
  expect(await shop.check(relation('of_kept'))).toContainEqual(refreshed);
  await shop.run(`revoke all on shop.partly from ${shop.reader};
      grant select (id, team, at, v) on shop.partly to ${shop.reader}`);
  const partly = expect.stringMatching(/only some columns of shop\.partly/);
  expect(await shop.check(relation('partly'))).toContainEqual(partly);
  const source = shop.source(relation('partly'));
  const request = caseRequest();
  expect((await source.describe(request, never)).warnings).toEqual([partly]);
  // A look at it neither fails nor finds late rows for ever.
  const seen = await readHour(source, request);
  await shop.run('delete from shop.partly where id = 1');
  const look = await source.lookAgain(request, seen, null, never);
  expect(look.mayHaveLateRows).toBe(true);
  expect((await source.lookAgain(request, look.now, null, never)).mayHaveLateRows).toBe(false);
});

describe('an exporter with a slow destination', () => {
  test('lets go of a table that somebody waits for, and says so', async () => {
    await shop.create(`create table shop.busy (like shop.base including all);
        insert into shop.busy select g, 1, timestamptz '2024-03-01 00:00Z' + g * interval '20 ms', repeat('x', 900)
          from generate_series(1, 100000) g`);
    const snapshot = await shop
      .source(relation('busy'), { lockWaitMs: 300, sliceMs: 60_000 })
      .open(caseRequest(), never);
    const [slice] = snapshot.slices;
    if (!slice) throw new Error('there is no slice');
    const rows = snapshot.read(slice, never)[Symbol.asyncIterator]();
    // The destination takes no more than the first block.
    expect((await rows.next()).done).toBe(false);
    await shop.run(`set local lock_timeout = '20s'; alter table shop.busy add x int;
        insert into shop.busy values (0, 1, now(), 'new')`);
    const rest = async () => {
      for (let next = await rows.next(); !next.done; ) next = await rows.next();
      for (const other of snapshot.slices) {
        for await (const block of snapshot.read(other, never))
          expect(block.rowCount).toBeGreaterThan(0);
      }
    };
    await expect(rest()).rejects.toMatchObject({
      code: 'source.lock_released',
      detail: expect.stringMatching(/^another session had waited for \d+ seconds/),
    });
    await snapshot.close();
  });

  test.each(
    firstByDay<readonly [string, (source: Source) => Promise<unknown>]>(1, [
      ['rows are counted', (source) => source.open(caseRequest(), never)],
      [
        'a look-back compares keys',
        (source) =>
          source.lookAgain(
            caseRequest(),
            { snapshot: '1:1:', digest: null, count: 1 },
            null,
            never,
          ),
      ],
    ]),
  )('lets go of it too while %s', async (_case, read) => {
    await shop.create(`drop table if exists shop.scanned cascade; create table shop.scanned (like shop.base including all);
        insert into shop.scanned select * from shop.base;
        create view shop.filtered as select * from shop.scanned where pg_sleep(0.05) is not null`);
    const reading = read(shop.source(relation('filtered'), { lockWaitMs: 300 }));
    reading.catch(() => {});
    await until(async () => {
      const { rowCount } = await admin.query(
        `select from pg_stat_activity where usename = $1 and wait_event = 'PgSleep'`,
        [shop.reader],
      );
      return rowCount === 1;
    });
    await shop.run(
      `begin; set local lock_timeout = '10s'; alter table shop.scanned add x int; commit`,
    );
    await expect(reading).rejects.toMatchObject({ code: 'source.lock_released' });
  });

  test('gives up a snapshot that is too old', async () => {
    const source = shop.source({}, { snapshotMs: 1_000, lockWaitMs: 300 });
    const snapshot = await source.open(caseRequest(), never);
    const [slice] = snapshot.slices;
    if (!slice) throw new Error('there is no slice');
    await until(async () => (await source.inspect(never)).oldestSnapshotSeconds === 0);
    const reading = snapshot.read(slice, never)[Symbol.asyncIterator]().next();
    await expect(reading).rejects.toMatchObject({
      code: 'source.lock_released',
      detail: expect.stringMatching(/^the run had held its snapshot for/),
    });
    await snapshot.close();
  });
});

atNight(
  'a dump by a role that can write nothing is not waited for, and what is waited for is named',
  async () => {
    const dumper = `${shop.reader}_dumper`;
    await shop.run(
      `create role ${dumper} login password 'dumper'; grant pg_read_all_data to ${dumper}`,
    );
    const url = new URL(server.url);
    url.username = dumper;
    url.password = 'dumper';
    url.searchParams.set('application_name', 'pg_dump');
    const dump = new Client({ connectionString: url.href });
    const writer = new Client({ connectionString: server.url, application_name: 'billing' });
    await Promise.all([dump.connect(), writer.connect()]);
    await dump.query('begin isolation level repeatable read read only; select from shop.base');
    const { interval } = caseRequest();
    const settle = (settleTimeoutMs: number) =>
      shop.source({}, { settleTimeoutMs }).settle(interval, never);
    expect((await settle(60_000)).settled).toBe(true);

    // PostgreSQL does not show that it is READ ONLY.
    const superuser = new Client({ connectionString: server.url, application_name: 'pg_dump' });
    await superuser.connect();
    await superuser.query('begin isolation level repeatable read read only');
    await superuser.query('select from shop.base');
    expect(await settle(1_500)).toMatchObject({
      settled: false,
      blockers: [
        expect.stringMatching(/application pg_dump, transaction .*, nothing written so far\)$/),
      ],
    });
    await superuser.end();

    await writer.query('begin');
    // On a busy server the patience can end before the rights of the dumper are known.
    const blockers = expect.arrayContaining([
      expect.stringMatching(
        /^process \d+ \(role \S+, application billing, transaction since 20\S+Z, last statement since 20\S+Z, nothing written so far\)$/,
      ),
    ]);
    const waiting = shop.source({}, { settleTimeoutMs: 60_000 });
    const waited = await waiting.settle(interval, never, { patienceMs: 1_000 });
    expect(waited).toMatchObject({ settled: false, reason: 'transactions', blockers });
    const { pending } = waited;
    const again = await waiting.settle(interval, never, { pending, waitedMs: 1_000 });
    expect(again).toMatchObject({ settled: false, pending, blockers });
    await writer.query('rollback');

    // Each of these lets it write.
    const rights = firstByDay(1, [
      [
        `grant insert (v) on shop.base to ${dumper}`,
        `revoke insert (v) on shop.base from ${dumper}`,
      ],
      [`grant delete on shop.base to ${dumper}`, `revoke delete on shop.base from ${dumper}`],
      [
        `create function public.lends() returns int language sql security definer as 'select 1'`,
        'drop function public.lends()',
      ],
      [`alter role ${dumper} createrole`, `alter role ${dumper} nocreaterole`],
    ]);
    for (const [give = '', take = ''] of rights) {
      await shop.run(give);
      const { settled, blockers } = await settle(700);
      expect([give, settled, blockers]).toEqual([
        give,
        false,
        [expect.stringContaining(`role ${dumper}, application pg_dump`)],
      ]);
      await shop.run(take);
    }
    expect((await settle(60_000)).settled).toBe(true);
    await Promise.all([dump.end(), writer.end()]);
    await shop.run(`drop role ${dumper}`);
  },
);
