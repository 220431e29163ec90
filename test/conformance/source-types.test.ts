/** Types of a model beside those of its table: what may differ, and what run, check and creation say. */

import { expect, test } from 'vitest';
import { boundaryAtOrBefore, nextBoundary } from '../../src/service/scheduling/boundary.ts';
import { parseCadence } from '../../src/service/scheduling/parse-cadence.ts';
import { firstByDay } from '../support/nightly.ts';
import { plainColumn } from '../support/plain-model.ts';
import { caseRequest, relation, useSourceCase } from '../support/source-cases.ts';

const never = new AbortController().signal;
const typed = relation('typed');

const { shop, admin } = useSourceCase();

const make = (columns: string) =>
  shop.create(`drop table if exists shop.typed; create table shop.typed as select ${columns} from shop.base;
    create index on shop.typed (team, at)`);

test.each(
  firstByDay(2, [
    ['numeric(12,2)', 'numeric(10,2)'],
    ['bigint', 'integer'],
    ['float4', 'float8'],
    ['numeric(10,2)', 'numeric'],
    ['numeric(10,2)[]', 'numeric(12,2)[]'],
    ['text', 'varchar(30)'],
  ]),
)('a model with %s refuses a table with %s', async (declared = '', real = '') => {
  await make(`id, team, at, ${real.endsWith(']') ? 'array[1.5]' : '1.5'}::${real} as x`);
  const columns = [plainColumn('id', 'bigint'), plainColumn('x', declared)];
  const strict = { ...typed, columns };
  await expect(shop.read(strict)).rejects.toMatchObject({ code: 'source.schema_changed' });
  expect(await shop.check(strict)).toContainEqual(
    expect.stringMatching(/^error: column x is .*, or set on_schema_change to follow\.$/),
  );
});

test.each(
  firstByDay(1, [
    ['dec(8,2)', 'numeric(8,2)'],
    ['int', 'int'],
    ['numeric', 'numeric(10,2)'],
    ['numeric(8)', 'numeric(8,0)'],
  ]),
)('a model with %s is another spelling of its table', async (declared = '', real = '') => {
  await make(`id, team, at, null::${real} as x`);
  const columns = [plainColumn('id', 'bigint'), plainColumn('x', declared)];
  expect(await shop.read({ ...typed, columns })).toHaveLength(100);
});

test.each(firstByDay(1, ['numeric', 'decimal', 'numeric[]']))(
  'a model with %s has no digits in its files, unless it follows',
  async (declared) => {
    const brackets = declared.endsWith('[]') ? '[]' : '';
    for (const digits of ['(10,2)', '(12,4)', '']) {
      await make(`id, team, at, null::numeric${digits}${brackets} as x`);
      const columns = [plainColumn('id', 'bigint'), plainColumn('x', declared)];
      const typeOf = async (onSchemaChange: 'fail' | 'follow') => {
        const source = shop.source({ ...typed, columns, onSchemaChange });
        const snapshot = await source.open(caseRequest(), never);
        await snapshot.close();
        return snapshot.columns[1]?.sourceType;
      };
      expect(await typeOf('fail')).toBe(`numeric${brackets}`);
      expect(await typeOf('follow')).toBe(`numeric${digits}${brackets}`);
    }
  },
);

test('a type in a schema without USAGE is no error of the check if it is the same', async () => {
  await shop.run(`create schema apart; create type apart.mood as enum ('calm')`);
  await make(`id, team, at, 'calm'::apart.mood as x`);
  const columns = [plainColumn('id', 'bigint'), plainColumn('x', 'apart.mood')];
  expect(await shop.read({ ...typed, columns })).toHaveLength(100);
  const found = await shop.check({ ...typed, columns });
  expect(found.filter((line) => line.startsWith('error'))).toEqual([]);
  await shop.run('drop schema apart cascade');
});

test('a local time is read as UTC, also on days of 23 or 25 hours', async () => {
  const wall = relation('wall');
  await shop.create(`create table shop.wall (id bigint primary key, team int not null, at timestamp not null, v text);
      insert into shop.wall select n, 1, timestamp '2024-03-29 00:30' + n * interval '1 hour', 'v' from generate_series(0, 24 * 7 - 1) n;
      insert into shop.wall select n, 1, timestamp '2024-10-25 00:30' + (n - 1000) * interval '1 hour', 'v' from generate_series(1000, 1000 + 24 * 7 - 1) n`);
  for (const [interval = '', timezone = ''] of firstByDay(1, [
    ['day', 'Europe/Berlin'],
    ['day', 'Europe/London'],
    ['week', 'Europe/Berlin'],
  ])) {
    for (const season of ['2024-03-31T12:00:00Z', '2024-10-27T12:00:00Z']) {
      const parsed = parseCadence({ interval, timezone }, 0);
      if (!parsed.ok) throw new Error('the cadence is not valid');
      const end = nextBoundary(parsed.cadence, Date.parse(season));
      const range = { start: boundaryAtOrBefore(parsed.cadence, end - 1), end };
      const times = { interval, timezone, hours: (end - range.start) / 3_600_000 };
      const rows = await shop.read(wall, { interval: range });
      const wanted = await admin.query(
        `select id from shop.wall where at >= $1::timestamp and at < $2::timestamp order by at`,
        [range.start, end].map((at) => new Date(at).toISOString().slice(0, 19)),
      );
      expect([times, rows]).toEqual([
        times,
        wanted.rows.map(({ id }) => ({ id: Number(id), v: 'v' })),
      ]);
      expect(times.hours % 24).not.toBe(0);
      const { warnings } = await shop
        .source(wall)
        .describe(caseRequest({ interval: range }), never);
      expect(warnings).toEqual([expect.stringMatching(/^at is timestamp without time zone/)]);
    }
  }
});

const ofType = /^team is .*\. A tenant column must be text, uuid or an integer type\./;
const ofCollation =
  /^team has the collation shop\.loose, which is not deterministic: .* such as team COLLATE "C" AS team\./;
test.each(
  firstByDay<readonly [string, RegExp]>(2, [
    ['public.citext', ofType],
    ['shop.words', ofCollation],
    ['numeric', ofType],
    ['shop.team', ofType],
    ['text collate shop.loose', ofCollation],
  ]),
)(
  'a tenant column of type %s, in which keys of two projects can be equal, is refused',
  async (type, words) => {
    await shop.create(`create extension if not exists citext schema public;
    do $$ begin create type shop.team as enum ('1'); create domain shop.cases as public.citext;
      create collation shop.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
      create domain shop.words as text collate shop.loose; exception when duplicate_object then null; end $$`);
    await make(`id, team::text::${type} as team, at, v`);
    const refused = { code: 'source.model_invalid', detail: expect.stringMatching(words) };
    await expect(shop.read(typed)).rejects.toMatchObject(refused);
    await expect(shop.read(typed, { dslQuery: 'SELECT v FROM rows' })).rejects.toMatchObject(
      refused,
    );
    const source = shop.source(typed);
    await expect(source.describe(caseRequest(), never)).rejects.toMatchObject(refused);
    await expect(source.openSmall?.(caseRequest(), never, 2 ** 20)).rejects.toMatchObject(refused);
    const late = { snapshot: '1:1:', digest: null, count: 3 };
    await expect(source.lookAgain(caseRequest(), late, null, never)).rejects.toMatchObject(refused);
    expect(await shop.check(typed)).toContainEqual(
      expect.stringMatching(new RegExp(`^error: ${words.source.slice(1)}`)),
    );
    await shop.create(
      `create view shop.exact as select id, team::text collate "C" as team, at, v from shop.typed`,
    );
    expect(await shop.read(relation('exact'))).toHaveLength(100);
    await shop.run('drop view shop.exact');
  },
);
