/** Types of a model beside those of its table: what may differ, and what run, check and creation say. */

import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  caseRequest,
  openSourceCase,
  plainColumn,
  type SourceCase,
  type SourceServer,
  sourceServers,
} from '../support/source-cases.ts';

const never = new AbortController().signal;
const [embedded] = sourceServers;
const typed = { relation: { schema: 'shop', name: 'typed' } };

let server: SourceServer;
let shop: SourceCase;

beforeAll(async () => {
  if (!embedded) throw new Error('there is no server');
  server = await embedded[1]();
  shop = await openSourceCase(server);
});

afterAll(async () => {
  await shop?.close();
  await server?.stop();
});

const make = (columns: string) =>
  shop.create(`drop table if exists shop.typed; create table shop.typed as select ${columns} from shop.base;
    create index on shop.typed (team, at)`);

test.each([
  ['int', 'bigint', 'bigint'],
  ['int8', 'integer', 'bigint'],
  ['float4', 'float8', 'double precision'],
  ['varchar(10)', 'text', 'text'],
  ['char(3)', 'text', 'text'],
  ['numeric(8)', 'numeric(12)', 'numeric(12,0)'],
  ['decimal(8, 2)', 'numeric(12,2)', 'numeric(12,2)'],
  ['numeric(8)', 'numeric(12,4)', null],
  ['numeric(10,2)', 'numeric', null],
])('a model with %s and a table with %s give %s', async (declared, real, written) => {
  await make(`id, team, at, null::${real} as x`);
  const columns = [plainColumn('id', 'bigint'), plainColumn('x', declared)];
  const of = (onSchemaChange: 'fail' | 'widen') => ({ ...typed, columns, onSchemaChange });
  const refused = { code: 'source.schema_changed' };
  await expect(shop.read(of('fail'))).rejects.toMatchObject(refused);
  expect(await shop.check(of('fail'))).toContainEqual(
    expect.stringMatching(/^error: column x is .* Correct type, or set on_schema_change\.$/),
  );
  if (written === null) {
    await expect(shop.read(of('widen'))).rejects.toMatchObject(refused);
    return;
  }
  const snapshot = await shop.source(of('widen')).open(caseRequest(), never);
  await snapshot.close();
  expect(snapshot.columns[1]?.sourceType).toBe(written);
});

test.each([
  ['int', 'id, team, at, null::int as x'],
  ['numeric', 'id, team, at, null::numeric(10,2) as x'],
  ['numeric(8)', 'id, team, at, null::numeric(8,0) as x'],
  ['dec(8,2)', 'id, team, at, null::numeric(8,2) as x'],
])('a model with %s is another spelling of its table', async (declared, sql) => {
  await make(sql);
  const columns = [plainColumn('id', 'bigint'), plainColumn('x', declared)];
  expect(await shop.read({ ...typed, columns })).toHaveLength(100);
});

test.each(['numeric', 'public.citext', 'shop.team'])(
  'a tenant column of type %s, in which keys of two projects can be equal, is refused',
  async (type) => {
    await shop.create(`create extension if not exists citext schema public;
    do $$ begin create type shop.team as enum ('1'); exception when duplicate_object then null; end $$`);
    await make(`id, team::text::${type} as team, at, v`);
    const words = /^team is .*\. A tenant column must be text, uuid or an integer type\./;
    const refused = { code: 'source.model_invalid', detail: expect.stringMatching(words) };
    await expect(shop.read(typed)).rejects.toMatchObject(refused);
    await expect(shop.read(typed, { dslQuery: 'SELECT v FROM rows' })).rejects.toMatchObject(
      refused,
    );
    const source = shop.source(typed);
    await expect(source.describe(caseRequest(), never)).rejects.toMatchObject(refused);
    await expect(source.openSmall?.(caseRequest(), never, 2 ** 20)).rejects.toMatchObject(refused);
    expect(await shop.check(typed)).toContainEqual(
      expect.stringMatching(new RegExp(`^error: ${words.source.slice(1)}`)),
    );
  },
);
