/** Foreign tables, and subscribers of logical replication. */

import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type SourceCase,
  type SourceServer,
  caseRequest,
  openSourceCase,
  outcomeOf,
  readHour,
  relation,
  startSourceServer,
  useSourceCase,
} from '../support/source-cases.ts';
import { choosePrograms } from '../support/stock-postgres.ts';
import { until } from '../support/until.ts';
import { atNight, firstByDay, isNightly } from '../support/nightly.ts';

const never = new AbortController().signal;

describe('a foreign table', () => {
  const { server, shop } = useSourceCase();
  let far: Client;
  const database = `far_${process.pid}`;
  const ofFar = relation('far');
  const warning =
    /^shop\.\w+ is a foreign table: no run can wait .* Only look-backs find late rows: set look_back_hours .*\.$/;

  beforeAll(async () => {
    await shop.run(`create database ${database}`);
    const url = new URL(server.url);
    url.pathname = `/${database}`;
    far = new Client({ connectionString: url.href });
    await far.connect();
    await far.query(`create table far (id bigint primary key, team int, at timestamptz, v text);
      insert into far select g, 1, timestamptz '2024-03-01 00:10Z' + g * interval '1 second', 'v' || g from generate_series(1, 100) g;
      grant select on far to ${shop.reader}`);
    await shop.create(`create extension postgres_fdw schema public;
      create server away foreign data wrapper postgres_fdw options (host '${url.hostname}', port '${url.port}', dbname '${database}');
      create user mapping for ${shop.reader} server away options (user '${shop.reader}', password 'reader');
      create foreign table shop.far (id bigint, team int, at timestamptz, v text) server away options (schema_name 'public')`);
  });

  afterAll(async () => {
    await shop?.run(
      'drop extension if exists file_fdw cascade; drop extension postgres_fdw cascade',
    );
    await far?.query(`drop owned by ${shop.reader}`);
    await far?.end();
    await shop?.run(`drop database ${database} with (force)`);
  });

  test.each(
    firstByDay<readonly [string, string]>(1, [
      ['behind a view', 'through'],
      ['itself', 'far'],
      ['as a partition', 'parted'],
      ['as an heir', 'parent'],
      ['of a file', 'filed'],
    ]),
  )('%s: a row that comes while more rows leave is found', async (_case, name) => {
    const file = path.join(await mkdtemp(path.join(tmpdir(), 'sluice-fdw-')), 'rows.csv');
    await chmod(path.dirname(file), 0o755);
    const write = (ids: readonly number[]) =>
      writeFile(file, ids.map((id) => `${id},1,2024-03-01 00:10Z,v\n`).join(''));
    const ids = [...Array(100).keys()].map((id) => id + 1);
    await write(ids);
    await far.query(
      `truncate far; insert into far select g, 1, timestamptz '2024-03-01 00:10Z', 'v' from generate_series(1, 100) g`,
    );
    await shop.create(`create extension if not exists file_fdw schema public;
      create server if not exists files foreign data wrapper file_fdw;
      drop foreign table if exists shop.filed; drop view if exists shop.through; drop table if exists shop.parted, shop.parent cascade;
      create foreign table shop.filed (id bigint, team int, at timestamptz, v text) server files options (filename '${file}', format 'csv');
      create table shop.parted (id bigint, team int, at timestamptz, v text) partition by range (at);
      create table shop.near partition of shop.parted for values from ('2024-04-01Z') to ('2024-05-01Z');
      create foreign table shop.of_march partition of shop.parted for values from ('2024-03-01Z') to ('2024-04-01Z')
        server away options (schema_name 'public', table_name 'far');
      create table shop.parent (id bigint, team int, at timestamptz, v text);
      create foreign table shop.heir () inherits (shop.parent) server away options (schema_name 'public', table_name 'far');
      create user mapping if not exists for current_user server away options (user '${shop.reader}', password 'reader');
      create view shop.through as select * from shop.far`);
    const model = relation(name);
    expect(await shop.check(model)).toContainEqual(
      expect.stringMatching(new RegExp(`^warning: ${warning.source.slice(1)}`)),
    );
    const source = shop.source(model, { settleTimeoutMs: 30_000 });
    const request = caseRequest();
    expect((await source.describe(request, never)).warnings).toContainEqual(
      expect.stringMatching(warning),
    );
    expect((await source.settle(request.interval, never)).settled).toBe(true);
    const seen = await readHour(source, request);
    expect(seen.count).toBe(100);
    expect((await source.lookAgain(request, seen, null, never)).mayHaveLateRows).toBe(false);
    await far.query(
      `delete from far where id = 3; insert into far values (1003, 1, '2024-03-01 00:10Z', 'v')`,
    );
    await write([...ids.filter((id) => id !== 3), 1_003]);
    expect(await source.hasChanged(request, seen, never)).toBe(true);
    await far.query('delete from far where id in (4, 5)');
    await write([...ids.filter((id) => id < 3 || id > 5), 1_003]);
    expect((await source.lookAgain(request, seen, null, never)).mayHaveLateRows).toBe(true);
    await rm(path.dirname(file), { recursive: true });
  });

  atNight(
    'names what its server says: an outage passes, what a person must correct does not',
    async () => {
      const fault = () => outcomeOf(shop.source(ofFar));
      const change = (sql: string) => shop.run(sql);
      const words = 'a server that the relation reads from, such as that of a foreign table:';
      await change(`alter server away options (set port '1')`);
      expect(await fault()).toBe(
        `source.unavailable ${words} could not connect to server "away" (SQLSTATE 08001)`,
      );
      await change(`alter server away options (set port '${new URL(server.url).port}')`);
      const mapping = `alter user mapping for ${shop.reader} server away options`;
      await change(`${mapping} (set password 'other')`);
      expect(await fault()).toBe(
        `source.unsupported ${words} could not connect to server "away" (SQLSTATE 08001). It refuses the login: correct the user mapping, or the connection of the function`,
      );
      await change(`${mapping} (drop password)`);
      expect(await fault()).toMatch(/^source\.unsupported .* \(SQLSTATE 2F003\)\. It refuses/);
      await change(`${mapping} (add password 'reader')`);
      await far.query(`revoke select on far from ${shop.reader}`);
      expect(await fault()).toBe(
        `source.unsupported ${words} permission denied for table far (SQLSTATE 42501)`,
      );
      await far.query(`grant select on far to ${shop.reader}`);
      await far.query(
        `alter role ${shop.reader} in database ${database} set statement_timeout = '30ms'`,
      );
      await far.query(`create view slow as select id, team, at, pg_sleep(0.05)::text as v from far; alter table far rename to near;
      alter view slow rename to far; grant select on far to ${shop.reader}`);
      expect(await fault()).toMatch(
        /^source\.unavailable .* statement timeout \(SQLSTATE 57014\)$/,
      );
    },
  );
});

const bin = choosePrograms();

describe.skipIf(bin === null || !isNightly)('a subscriber of logical replication', () => {
  let server: SourceServer;
  let shop: SourceCase;
  let publisher: Client;

  beforeAll(async () => {
    server = await startSourceServer({ wal_level: 'logical' });
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
    const earlier = await readHour(source, request);
    expect(earlier.count).toBe(100);
    expect((await source.lookAgain(request, earlier, null, never)).mayHaveLateRows).toBe(false);
    await publisher.query(`insert into shop.base values (1000, 1, '2024-03-01 00:30Z', 'late')`);
    await until(
      async () => (await source.lookAgain(request, earlier, null, never)).mayHaveLateRows,
    );
  });

  test('is warned of: no run can wait for its rows', async () => {
    const warning =
      /Logical replication writes the rows of shop\.base: .* Only look-backs find late rows: set look_back_hours .*\.$/;
    expect(await shop.check()).toEqual([expect.stringMatching(warning)]);
    const { warnings } = await shop.source().describe(caseRequest(), never);
    expect(warnings).toEqual([expect.stringMatching(warning)]);
  });
});
