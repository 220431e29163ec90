/** Functions that read tables with row-level policies. */

import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SluiceError } from '../../src/foundation/domain/errors.ts';
import type { Model } from '../../src/foundation/domain/model.ts';
import { planModels } from '../../src/rows/sources/index.ts';
import { plainColumn } from '../support/plain-model.ts';
import { caseModel, caseRequest, relation, useSourceCase } from '../support/source-cases.ts';
import { mayHaveLateRows } from '../support/late-rows.ts';

const never = new AbortController().signal;
const calling = (expression: string): Partial<Model> => {
  const called = { name: 'v', expression, sourceType: 'text', json: false };
  return { columns: [plainColumn('id', 'bigint'), called] };
};

const { shop } = useSourceCase();
let author: string;

beforeAll(async () => {
  author = `${shop.reader}_author`;
  await shop.create(`
      create role ${author}; grant usage on schema shop to ${author};
      create table shop.plans (id bigint primary key, team int, plan text);
      insert into shop.plans select id, team, 'gold' from shop.base;
      grant select on shop.plans to ${author};
      alter table shop.plans enable row level security;
      create policy isolation on shop.plans using (team = nullif(current_setting('app.team', true), '')::int);
      create function shop.plan_of(bigint) returns text language plpgsql stable as
        $$ begin return (select p.plan from shop.plans p where p.id = $1); end $$;
      create function shop.plan_in_sql(bigint) returns text language sql stable as
        'select p.plan from shop.plans p where p.id = $1';
      create function shop.plan_of_author(bigint) returns text language plpgsql stable security definer as
        $$ begin return (select p.plan from shop.plans p where p.id = $1); end $$;
      alter function shop.plan_of_author(bigint) owner to ${author};
      create function shop.plan_with_policies(bigint) returns text language plpgsql stable set row_security = on as
        $$ begin return (select p.plan from shop.plans p where p.id = $1); end $$;
      create function shop.has_plan(bigint, text) returns bool language plpgsql stable as
        $$ begin return exists (select from shop.plans p where p.id = $1 and p.plan = $2); end $$;
      create operator shop.=== (function = shop.has_plan, leftarg = bigint, rightarg = text);
      create function shop.twice(text) returns text language plpgsql immutable as $$ begin return $1 || $1; end $$;
      create table shop.open (like shop.base including all); insert into shop.open select * from shop.base;
      alter table shop.open enable row level security;
      create policy everything on shop.open using (team = current_setting('sluice.tenant_key')::int);

      create view shop.outputs as select id, team, at, shop.plan_of(id) as v from shop.base;
      create view shop.in_sql as select id, team, at, shop.plan_in_sql(id) as v from shop.base;
      create view shop.filters as select b.* from shop.base b where shop.plan_of(b.id) = 'gold';
      create view shop.behind as select f.* from shop.filters f;
      create view shop.definer as select b.* from shop.base b where shop.plan_of_author(b.id) = 'gold';
      create view shop.turned_on as select b.* from shop.base b where shop.plan_with_policies(b.id) = 'gold';
      create view shop.over_open as select b.* from shop.open b where shop.plan_of(b.id) = 'gold';
      create view shop.by_operator as select b.* from shop.open b where b.id operator(shop.===) 'gold';
      alter view shop.over_open set (security_invoker);
      alter view shop.by_operator set (security_invoker);
      create view shop.harmless as select id, team, at, shop.twice(v) as v from shop.base;
      create view shop.open_view with (security_invoker) as select * from shop.open`);
  await shop.create(`create materialized view shop.kept as select * from shop.filters;
      alter materialized view shop.kept owner to ${author}; grant create on schema shop to ${author}`);
});

afterAll(async () => {
  await shop?.run(`drop owned by ${author} cascade; drop role ${author}`);
});

const refusal = /row-level security.*set row_security: filtered/;
const faultOf = (read: Promise<unknown>) =>
  read.then(
    () => null,
    (error: SluiceError) => error,
  );

test.each<[string, Partial<Model>, RegExp]>([
  ['an output of a view', relation('outputs'), /"plans", in PL\/pgSQL function shop\.plan_of/],
  ['SQL', relation('in_sql'), /"plans", in SQL function "plan_in_sql"/],
  ['a condition of a view', relation('filters'), /"plans", in PL\/pgSQL function shop\.plan_of/],
  ['a view behind a view', relation('behind'), /"plans", in PL\/pgSQL function shop\.plan_of/],
  ['the rights of its owner', relation('definer'), /"plans", in PL\/pgSQL function shop\.plan_of/],
  ['an expression of the model', calling('shop.plan_of(id)'), /"plans", in PL\/pgSQL function/],
  [
    'policies turned on',
    relation('turned_on'),
    /the policy isolation may .* shop\.turned_on calls the function shop\.plan_with_policies/,
  ],
  [
    'a table whose own policy is harmless',
    relation('over_open'),
    /rows of shop\.plans from the role reader_.* shop\.over_open calls the function shop\.plan_of\(bigint\), which may read them/,
  ],
  [
    'an operator',
    relation('by_operator'),
    /shop\.by_operator calls the function shop\.has_plan\(bigint,text\)/,
  ],
  [
    'an expression over such a table',
    { ...relation('open'), ...calling('shop.twice(v)') },
    /the function in an expression of the model, which may read them/,
  ],
  [
    'a materialized view',
    relation('kept'),
    /rows of shop\.plans from the role \S+_author: .* calls the function shop\.plan_of/,
  ],
])('a function in %s is no way around a policy', async (_case, changes, words) => {
  const error = await faultOf(shop.read(changes));
  expect(error).toMatchObject({ code: 'source.unsupported', detail: expect.stringMatching(words) });
  expect(error?.detail).toMatch(refusal);
  const source = shop.source(changes);
  expect(await faultOf(source.tryRow('rows', '1', true, never))).toMatchObject({
    detail: expect.stringMatching(words),
  });
  expect(await shop.check(changes)).toContainEqual(expect.stringMatching(words));
  // The operator said so.
  await shop.read({ ...changes, rowSecurity: 'filtered' });
});

test('a look-back compares no keys that a function has hidden', async () => {
  const seen = { snapshot: '1:1:', digest: null, count: 3 };
  for (const name of ['filters', 'definer', 'turned_on', 'over_open', 'kept']) {
    const late = mayHaveLateRows(shop.source(relation(name)), caseRequest(), seen, null, never);
    await expect(late).rejects.toMatchObject({ code: 'source.unsupported' });
  }
});

test('functions that read no such table, and policies that hide nothing, are read', async () => {
  for (const [changes, rows] of [
    [relation('harmless'), 100],
    [calling('shop.twice(v)'), 100],
    [relation('open'), 100],
    [relation('open_view'), 100],
    [{ ...relation('open'), ...calling('pg_catalog.upper(v)') }, 100],
  ] as const) {
    expect(await shop.read(changes)).toHaveLength(rows);
    expect((await shop.check(changes)).filter((line) => line.startsWith('error'))).toEqual([]);
  }
  await shop.run(`alter role ${shop.reader} bypassrls; alter role ${author} bypassrls`);
  try {
    for (const name of ['filters', 'definer', 'turned_on', 'over_open', 'by_operator']) {
      expect(await shop.read(relation(name))).toHaveLength(100);
    }
  } finally {
    await shop.run(`alter role ${shop.reader} nobypassrls; alter role ${author} nobypassrls`);
  }
});

test('the error of a function has only the words that its author has written', async () => {
  const says = async (body: string) => {
    await shop.create(`
        create or replace function shop.says(text) returns text language plpgsql as $f$ ${body} $f$;
        create or replace view shop.saying as select id, team, at, shop.says('canary' || v) as v from shop.base`);
    const error = await faultOf(shop.read(relation('saying')));
    const [checked = ''] = (await shop.check(relation('saying'))).slice(-1);
    return { code: error?.code, detail: error?.detail ?? '', checked };
  };
  const failed = { code: 'source.function_failed' };
  expect(await says(`begin raise exception 'it''s %', $1; end`)).toEqual({
    ...failed,
    detail: expect.stringMatching(
      /^a function raised an error \(SQLSTATE P0001\), in PL\/pgSQL function shop\.says\(text\) line 1 at RAISE$/,
    ),
    // The operator may read all words.
    checked: expect.stringContaining("it's canaryv"),
  });
  expect(await says(`begin raise exception 'it''s late'; end`)).toMatchObject({
    ...failed,
    detail: expect.stringMatching(/^it's late, in PL\/pgSQL function shop\.says/),
  });
  const huge = await says(`begin raise exception '%', repeat(E'\\u001b[31m' || $1, 1000000); end`);
  expect(huge.checked.length).toBeLessThan(5_000);
  const written = `begin execute format('insert into shop.base (v) values (%L)', $1); return 1; end`;
  for (const body of [`begin return $1::int; end`, `begin assert false, $1; end`, written]) {
    const { code, detail } = await says(body);
    expect([code, detail]).toEqual([failed.code, expect.not.stringContaining('canary')]);
  }
});

test.each([
  ['another setting', `team = current_setting('app.team', true)::int`, 'app.team'],
  ['a function that asks for one', 'team = shop.team_of_session()', 'app.team'],
  ['who is logged in', `team = 1 and session_user <> 'x'`, 'session_user'],
  ['the project', `team = current_setting('sluice.tenant_key')::int`, null],
])('a view that depends on %s is warned of, if that hides rows', async (_, condition, asked) => {
  await shop.create(`create or replace function shop.team_of_session() returns int language sql stable
        as $$ select nullif(current_setting('app.team', true), '')::int $$;
      create or replace view shop.by_session as select * from shop.base where ${condition}`);
  const by = relation('by_session');
  const words = expect.stringContaining(`shop.by_session depends on ${asked} of the session`);
  const { warnings } = await shop.source(by).describe(caseRequest(), never);
  const filtered = await shop
    .source({ ...by, rowSecurity: 'filtered' })
    .describe(caseRequest(), never);
  expect(filtered.warnings).toEqual([]);
  expect(warnings).toEqual(asked === null ? [] : [words]);
  if (asked !== null) expect(await shop.check(by)).toContainEqual(words);
});

test('several reads of one snapshot, and small runs together, keep to the same rule', async () => {
  await shop.create(`create table shop.many (like shop.base including all);
      insert into shop.many select g, 1, timestamptz '2024-03-01 00:00Z' + g * interval '100 ms', 'v' from generate_series(1, 30000) g;
      alter table shop.many enable row level security; create policy all_rows on shop.many using (true)`);
  expect(await shop.read(relation('many'))).toHaveLength(30_000);
  const request = caseRequest();
  const source = shop.source(relation('open'));
  const [one, other] = await Promise.all([
    source.openSmall(request, never, 1 << 20),
    source.openSmall(request, never, 1 << 20),
  ]);
  expect([one?.totalCount, other?.totalCount]).toEqual([100, 100]);
  await Promise.all([one?.close(), other?.close()]);
  // Two models of one table keep each to its own rule.
  await shop.create(`create table shop.few (like shop.base including all); insert into shop.few select * from shop.base;
      alter table shop.few enable row level security; create policy few on shop.few using (id < 9)`);
  const strict = { ...caseModel, ...relation('few'), name: 'strict' };
  const filtered = { ...strict, name: 'filtered', rowSecurity: 'filtered' as const };
  const both = shop.source({}, { plan: planModels([strict, filtered]) });
  const [refused, shown] = await Promise.allSettled(
    ['strict', 'filtered'].map((model) => both.openSmall({ ...request, model }, never, 1 << 20)),
  );
  expect(refused).toMatchObject({ reason: { code: 'source.unsupported' } });
  expect(shown).toMatchObject({ value: { totalCount: 8 } });
  const hidden = shop.source(relation('filters'));
  expect(await faultOf(hidden.openSmall(request, never, 1 << 20))).toMatchObject({
    code: 'source.unsupported',
  });
});
