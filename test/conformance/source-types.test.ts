/** Types of a model beside those of its table: what may differ, and what run, check and creation say. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  caseRequest,
  openSourceCase,
  plainColumn,
  type SourceCase,
  type SourceServer,
  sourceServers,
} from '../support/source-cases.ts';

const never = new AbortController().signal;
const typed = { relation: { schema: 'shop', name: 'typed' } };

describe.each(sourceServers)('%s', (_, start) => {
  let server: SourceServer;
  let shop: SourceCase;

  beforeAll(async () => {
    server = await start();
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
    ['bigint', 'integer', 'bigint'],
    ['smallint', 'integer', 'integer'],
    ['integer', 'integer', 'integer'],
    ['int', 'bigint', 'bigint'],
    ['int8', 'integer', 'bigint'],
    ['double precision', 'real', 'double precision'],
    ['float4', 'float8', 'double precision'],
    ['numeric(12,2)', 'numeric(10,2)', 'numeric(12,2)'],
    ['numeric(8,2)', 'numeric(10,2)', 'numeric(10,2)'],
    ['numeric(8)', 'numeric(12)', 'numeric(12,0)'],
    ['decimal(8, 2)', 'numeric(12,2)', 'numeric(12,2)'],
    ['text', 'varchar(30)', 'character varying(30)'],
    ['varchar(10)', 'text', 'text'],
    ['char(3)', 'text', 'text'],
    ['numeric(8)', 'numeric(12,4)', null],
    ['numeric(10,2)', 'numeric', null],
    ['numeric(10,3)', 'numeric(10,2)', null],
    ['text', 'integer', null],
    ['bigint', 'numeric', null],
  ])('widen: a model with %s and a table with %s give %s', async (declared, real, written) => {
    await make(`id, team, at, 1.5::${real} as x`);
    const columns = [plainColumn('id', 'bigint'), plainColumn('x', declared)];
    const of = (onSchemaChange: 'fail' | 'widen') => ({ ...typed, columns, onSchemaChange });
    const changed = { code: 'source.schema_changed' };
    if (declared !== real) {
      await expect(shop.read(of('fail'))).rejects.toMatchObject(changed);
      expect(await shop.check(of('fail'))).toContainEqual(
        expect.stringMatching(/^error: column x is .* Correct type, or set on_schema_change\.$/),
      );
    }
    if (written === null) {
      const detail = expect.stringMatching(/, and neither type is wider$/);
      await expect(shop.read(of('widen'))).rejects.toMatchObject({ ...changed, detail });
      return;
    }
    const snapshot = await shop.source(of('widen')).open(caseRequest(), never);
    await snapshot.close();
    expect(snapshot.columns[1]?.sourceType).toBe(written);
    const [row] = await shop.read(of('widen'));
    const { x } = row as { x: unknown };
    expect(Number(x)).toBe(/int|^numeric\(12\)$/.test(real) ? 2 : 1.5);
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
      await expect(source.openSmall?.(caseRequest(), never, 2 ** 20)).rejects.toMatchObject(
        refused,
      );
      expect(await shop.check(typed)).toContainEqual(
        expect.stringMatching(new RegExp(`^error: ${words.source.slice(1)}`)),
      );
    },
  );
});
