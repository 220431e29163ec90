import { useStage } from '../../support/use-stage.ts';
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Model } from '../../../src/foundation/domain/model.ts';
import {
  checkModel,
  createPostgresSource,
  findGrants,
  planModels,
} from '../../../src/rows/sources/index.ts';
import { createEmptyDatabase } from '../../support/database.ts';
import { describeError } from '../../../src/foundation/domain/describe-error.ts';
import { toSluiceError } from '../../../src/foundation/domain/errors.ts';
import { asRole } from '../../support/template-database.ts';
import { plainColumn, plainModel } from '../../support/plain-model.ts';
import { firstByDay, isNightly } from '../../support/nightly.ts';
import { hourRequest } from '../../support/source-tables.ts';

/** A role that has nothing yet, and its name in SQL. */
const role = `Grants "${randomBytes(4).toString('hex')}"`;
const quoted = `"${role.replaceAll('"', '""')}"`;
let readerUrl: string;

const tenant = '0f8fad5b-d9cb-469f-a165-70867728950e';
const orders: Model = {
  name: 'orders',
  relation: { schema: 'My Shop', name: 'Order' },
  tenantColumn: 'accountId',
  intervalColumn: 'createdAt',
  keyColumns: ['Id'],
  eventColumn: null,
  columns: [
    plainColumn('Id', 'bigint'),
    plainColumn('createdAt', 'timestamp with time zone'),
    plainColumn('twice', 'numeric', '"net" * 2'),
  ],
};
const visits: Model = { ...orders, name: 'visits', relation: { schema: 'web', name: 'visits' } };
const shown: Model = { ...orders, name: 'shown', relation: { schema: 'web', name: 'shown' } };
const models = [orders, visits, shown];

const database = useStage(createEmptyDatabase);
beforeAll(async () => {
  const columns = `"Id" bigint not null, "accountId" uuid not null, "createdAt" timestamptz not null, net numeric, secret text`;
  await database.pool.query(`
    create schema "My Shop"; create schema web;
    create table "My Shop"."Order" (${columns}, primary key ("Id"));
    create index on "My Shop"."Order" ("accountId", "createdAt");
    create table web.visits (${columns}, primary key ("Id", "createdAt")) partition by range ("createdAt");
    create table web.visits_now partition of web.visits default;
    create view web.shown as select * from "My Shop"."Order";
    insert into "My Shop"."Order" values (1, '${tenant}', '2024-03-01T00:30:00Z', 3);
    insert into web.visits values (1, '${tenant}', '2024-03-01T00:30:00Z', 3)`);
  // A look needs no right to this view, only to the function below it.
  await database.adminSql`
    revoke select on pg_catalog.pg_prepared_xacts
      from public; revoke execute on function pg_catalog.pg_prepared_xact() from public`;
  readerUrl = asRole(database.url, role);
});
afterAll(() => database.admin.query(`drop owned by ${quoted}; drop role ${quoted}`));

const errorsOf = async (model: Model) => {
  const { findings } = await checkModel(readerUrl, model, [tenant]);
  return findings.filter(({ severity }) => severity === 'error').map(({ detail }) => detail);
};

it('what is printed for a role that does not exist yet makes the checks pass, and a run reads the rows', async () => {
  const run = async (onlyColumns: boolean) => {
    const { statements } = await findGrants(readerUrl, models, { onlyColumns, isPaired: false });
    for (const statement of statements) await database.admin.query(statement);
    return statements;
  };
  const first = await run(true);
  expect(first.join('\n')).not.toContain('secret');
  expect(first).toContain(
    `GRANT SELECT ("accountId", "createdAt", "Id", net) ON "My Shop"."Order" TO ${quoted}`,
  );
  await database.admin.query(`alter role ${quoted} password 'reader'`);
  // The role can log in now: so the check shows what else the server keeps from it.
  expect(await errorsOf(orders)).toEqual([
    expect.stringMatching(
      /every run fails\. GRANT EXECUTE ON FUNCTION pg_catalog\.pg_prepared_xact\(\) TO "G/,
    ),
  ]);
  const second = await run(false);
  expect(second.at(-1)).toMatch(/^GRANT EXECUTE ON FUNCTION pg_catalog\.pg_prepared_xact\(\) TO /);
  const source = createPostgresSource({ connectionString: readerUrl, plan: planModels(models) });
  const { signal } = new AbortController();
  for (const model of models) {
    const { name } = model;
    expect([name, await errorsOf(model)]).toEqual([name, []]);
    const end = Date.parse('2024-03-01T01:00:00Z');
    const interval = { start: end - 7_200_000, end };
    const request = hourRequest({ model: name, tenantKey: tenant, interval });
    const { settled } = await source.settle(interval, signal);
    const snapshot = await source.open(request, signal);
    const rows = await snapshot.countRows(signal);
    await snapshot.close();
    expect([name, settled, rows]).toEqual([name, true, 1]);
  }
});

it('the check names every right that is missing at once', async () => {
  await database.admin.query(`revoke all on "My Shop"."Order" from ${quoted};
    revoke usage on schema "My Shop" from ${quoted}; revoke execute on function pg_catalog.pg_prepared_xact() from ${quoted}`);
  const found = (await errorsOf(orders)).join('\n');
  for (const grant of [
    `GRANT USAGE ON SCHEMA "My Shop" TO`,
    `GRANT SELECT ON "My Shop"."Order" TO`,
    'GRANT EXECUTE ON FUNCTION pg_catalog.pg_prepared_xact() TO',
  ]) {
    expect(found).toContain(grant);
  }
});

describe('culprits', () => {
  const types = { id: 'bigint', at: 'timestamp with time zone', note: 'text' };
  const modelOf = (name: string, rowSecurity: 'filtered' | null = null) =>
    plainModel(name, types, { rowSecurity });
  const at = Date.parse('2024-03-01T10:00:00Z');
  const interval = { start: at, end: at + 3_600_000 };
  const { signal } = new AbortController();

  /** The words of a run, of a check before it, and of a preview's row. */
  async function wordsOf(url: string, model: Model): Promise<readonly string[]> {
    const source = createPostgresSource({ connectionString: url, plan: planModels([model]) });
    const request = hourRequest({ model: model.name, interval });
    const run = async () => {
      const snapshot = await source.open(request, signal);
      try {
        for (const slice of snapshot.slices) for await (const _ of snapshot.read(slice, signal));
      } finally {
        await snapshot.close();
      }
    };
    const row = source.tryRow(model.name, '1', false, signal);
    const ended = await Promise.allSettled([run(), source.describe(request, signal), row]);
    return ended.map((one) =>
      one.status === 'fulfilled' ? '' : describeError(toSluiceError(one.reason)),
    );
  }

  describe('a policy that raises', () => {
    const database = useStage(createEmptyDatabase);
    let readerUrl: string;
    const reader = 'culprits_reader';
    const tables = ['divides', 'calls', 'stable'];

    beforeAll(async () => {
      await database.admin.query(
        `create role ${reader} login password 'reader' in role pg_read_all_stats`,
      );
      await database.pool.query(`
      create function refuse(bigint) returns boolean language plpgsql as $$ begin raise 'no ticket'; end $$;
      create function nothing() returns int language sql stable as 'select 0';
      ${tables
        .map(
          (
            name,
          ) => `create table ${name} (id bigint primary key, team int not null, at timestamptz not null, note text);
        insert into ${name} values (1, 1, '2024-03-01T10:30:00Z', 'a');
        alter table ${name} enable row level security; grant select on ${name} to ${reader};`,
        )
        .join('\n')}
      create policy own_rows on divides using (team / (id - 1) > 0);
      create policy own_rows on calls using (refuse(id));
      create policy own_rows on stable using (1 / nothing() = team)`);
      readerUrl = asRole(database.url, reader);
    });
    afterAll(() => database.admin.query(`drop owned by ${reader}; drop role ${reader}`));

    it.each(firstByDay(1, tables))('is named by a run, and not the columns: %s', async (name) => {
      for (const filtered of ['filtered', null] as const) {
        const words = await wordsOf(readerUrl, modelOf(name, filtered));
        const named = words.filter((text) => text !== '');
        expect(named.length).toBeGreaterThan(0);
        for (const text of named) {
          expect(text).toContain('the policy own_rows');
          expect(text).toContain(`public.${name}`);
        }
      }
    });
  });

  describe.runIf(isNightly)('a text that has no form in UTF-8', () => {
    const database = useStage(() =>
      createEmptyDatabase(undefined, `encoding 'WIN1252' locale 'C'`),
    );

    beforeAll(async () => {
      await database.sql`
      create table notes (id bigint primary key, team int not null, at timestamptz not null, note text);
      insert into notes select n, 1, '2024-03-01T10:30:00Z', case n when 37 then 'x' || chr(129) else 'fine' end
        from generate_series(1, 100) n`;
    });

    it('is named with its column, its key and the interval', async () => {
      const [run = ''] = await wordsOf(database.url, modelOf('notes'));
      expect(run).toContain(
        'in the column note of the row with id 37, of 2024-03-01T10:00:00Z to 2024-03-01T11:00:00Z',
      );
    });
  });
});
