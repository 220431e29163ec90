/** No setting of a role, a database or a server changes what is exported. */

import { Client } from 'pg';
import { expect, test } from 'vitest';
import { pinnedSettings } from '../../src/rows/sources/postgres/session-settings.ts';
import { plainColumn } from '../support/plain-model.ts';
import { caseRequest, startSourceServer, useSourceCase } from '../support/source-cases.ts';
import { findOpenSettings } from '../support/server-settings.ts';
import { readAll } from '../support/source-tables.ts';
import { until } from '../support/until.ts';
import { atNight, isNightly } from '../support/nightly.ts';

const never = new AbortController().signal;

const { server, shop, admin } = useSourceCase(isNightly ? startSourceServer : undefined);

test('each setting that a role may have is pinned, or known not to change rows', async () => {
  expect(await findOpenSettings(admin, Object.keys(pinnedSettings), 'a source')).toEqual([]);
  const { rows } = await admin.query<{ name: string }>('select name from pg_settings');
  const names = new Set(rows.map(({ name }) => name.toLowerCase()));
  const unknown = Object.keys(pinnedSettings).filter((name) => !names.has(name.toLowerCase()));
  expect(unknown).toEqual([]);
});

atNight('the same rows come with other settings of the role', async () => {
  await shop.create(`
      create table shop.shown (id bigint primary key, team int, at timestamptz not null, m money, d date, i interval,
        f float8, b bytea, r real, l text[], n numeric);
      insert into shop.shown values (1, 1, '2024-03-01 00:10Z', 1234.5, '2024-02-03', '1 day 02:00', 0.1 + 0.2, '\\x00ff', 0.1,
        array['a', null], 1e-7);
      create view shop.printed as select id, team, at, m, d, i, f, b, r, l, n,
        concat_ws('|', m::text, d::text, i::text, f::text, b::text, at::text, array[at]::text, to_char(d, 'TMMonth'),
                  to_char(n, '9G999D99'), '<a/>'::xml::text, quote_ident('plain')) as v
        from shop.shown`);
  const columns = [
    ['id', 'bigint'],
    ['m', 'money'],
    ['d', 'date'],
    ['i', 'interval'],
    ['f', 'double precision'],
    ['b', 'bytea'],
    ['r', 'real'],
    ['l', 'text[]'],
    ['n', 'numeric'],
    ['v', 'text'],
  ].map(([name = '', type = '']) => plainColumn(name, type));
  const changes = { relation: { schema: 'shop', name: 'printed' }, columns };
  const dslQuery = `SELECT id, v, d, m, i FROM rows WHERE (v = NULL) IS NULL AND date '01/02/2024' = date '2024-01-02'`;
  const { interval } = caseRequest();
  const seen = async () => [
    await shop.read(changes),
    await shop.read(changes, { dslQuery }),
    [(await shop.source(changes).settle(interval, never)).settled],
    await shop.check(changes),
  ];
  const before = await seen();
  expect(before.map((rows) => rows.length)).toEqual([1, 1, 1, expect.any(Number)]);
  expect(before[2]).toEqual([true]);
  // Each in the other way.
  const { rows: others } = await admin.query<{ name: string; value: string | null }>(`
      select name, case vartype when 'bool' then case setting when 'on' then 'off' else 'on' end
                   else (select v from unnest(enumvals) v where v <> setting order by v desc limit 1) end as value
        from pg_settings
       where context in ('user', 'superuser') and vartype in ('bool', 'enum')
         and category !~ '^(Reporting|Developer|Preset)' and name !~ '^(transaction_|role|exit_on_error|is_superuser|track_activities)'`);
  const texts = {
    extra_float_digits: '-5',
    datestyle: 'German, DMY',
    timezone: 'Asia/Kolkata',
    client_encoding: 'LATIN1',
    lc_monetary: 'C.utf8',
    search_path: '',
    gin_fuzzy_search_limit: '1',
    lock_timeout: '1',
    statement_timeout: '600000',
    idle_session_timeout: '600000',
  };
  const flipped = others.filter(({ value }) => value !== null);
  const all: (string | null)[][] = [
    ...flipped.map(({ name, value }) => [name, value]),
    ...Object.entries(texts),
  ];
  expect(all.length).toBeGreaterThan(60);
  for (const [name, value] of all) {
    await shop.run(`alter role ${shop.reader} set ${name} = '${value}'`);
  }
  expect(await seen()).toEqual(before);
  await shop.run(`alter role ${shop.reader} reset all`);
});

atNight('no limit of the role ends a run or keeps an interval from settling', async () => {
  const { interval } = caseRequest();
  const settle = () => shop.source({}, { settleTimeoutMs: 60_000 }).settle(interval, never);
  const isNew = Number((await admin.query('show server_version_num')).rows[0].server_version_num);
  const database = `"${new URL(server.url).pathname.slice(1)}"`;
  const names = [
    'statement_timeout',
    'lock_timeout',
    'idle_in_transaction_session_timeout',
    ...(isNew >= 170_000 ? ['transaction_timeout'] : []),
  ];
  const ofAdmin = names.map((name) => `set ${name} = 0`).join('; ');
  await Promise.all([shop.run(ofAdmin), admin.query(ofAdmin)]);
  const areSet = async () => {
    const session = new Client({ connectionString: shop.url });
    session.on('error', () => {});
    await session.connect();
    const { rows } = await session.query(
      `select from pg_settings where name = any ($1) and reset_val = '200'`,
      [names],
    );
    await session.end();
    return rows.length === names.length;
  };
  const stays = (condition: string) =>
    until(async () => {
      await admin.query('select pg_stat_clear_snapshot()');
      const sql = `select from pg_stat_activity where usename = $1 and ${condition} > '400ms'`;
      return (await admin.query(sql, [shop.reader])).rowCount === 1;
    });
  const places = [
    `alter role ${shop.reader}`,
    `alter role ${shop.reader} in database ${database}`,
    `alter database ${database}`,
    'alter system',
  ];
  for (const place of places) {
    for (const name of names) await shop.run(`${place} set ${name} = '200ms'`);
    await shop.run('select pg_reload_conf()');
    await until(areSet);
    expect([place, await shop.check()]).toEqual([place, []]);
    // The table is locked, and then nothing is asked, for longer than each limit.
    await admin.query('begin; lock table shop.base');
    const opening = shop.source().open(caseRequest(), never);
    await stays(`wait_event_type = 'Lock' and clock_timestamp() - xact_start`);
    await admin.query('commit');
    const snapshot = await opening;
    await stays(`state = 'idle in transaction' and clock_timestamp() - state_change`);
    const blocks = await readAll(snapshot, never);
    expect(blocks.reduce((sum, { rowCount }) => sum + rowCount, 0)).toBe(100);
    await snapshot.close();
    expect((await settle()).settled).toBe(true);
    for (const name of names) await shop.run(`${place} reset ${name}`);
  }
  await shop.run('select pg_reload_conf()');
  // A session without a transaction is ended by the server: the limit is named. Statements that
  // follow each other within the millisecond are not met by it, so it is asked until one is.
  await shop.run(`alter role ${shop.reader} set idle_session_timeout = '1ms'`);
  const outcomes: unknown[] = [];
  while (outcomes.length < 500 && outcomes.at(-1) !== 'the limit of idle_session_timeout') {
    outcomes.push(
      await settle().then(
        ({ settled }) => settled,
        (error) => error.detail,
      ),
    );
  }
  expect(outcomes.pop()).toBe('the limit of idle_session_timeout');
  expect(outcomes.filter((outcome) => outcome !== true)).toEqual([]);
  await shop.run(`alter role ${shop.reader} reset all`);
});

test('the catalog is the server’s own, whatever the path of the role shows first', async () => {
  const other = new Client({ connectionString: server.url });
  await other.connect();
  await shop.create(`create view shop.pg_locks as select * from pg_catalog.pg_locks where false;
      create view shop.pg_stat_activity as select * from pg_catalog.pg_stat_activity where false;
      create function shop.pg_is_in_recovery() returns boolean language sql as 'select true'`);
  await shop.run(`alter role ${shop.reader} set search_path = shop, pg_catalog`);
  await other.query('begin');
  const { settled } = await shop
    .source({}, { settleTimeoutMs: 700 })
    .settle(caseRequest().interval, never);
  expect(settled).toBe(false);
  await other.end();
  await shop.run(`alter role ${shop.reader} reset all`);
});
