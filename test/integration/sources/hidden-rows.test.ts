/** Tables whose rows row-level security hides from the role of the source: they look empty, without an error. */

import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Model } from '../../../src/foundation/domain/model.ts';
import { checkModel, createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import type { Source } from '../../../src/rows/sources/source.ts';
import { createEmptyDatabase } from '../../support/database.ts';
import { mayHaveLateRows } from '../../support/late-rows.ts';
import { endSessions, openSession } from '../../support/source-sessions.ts';
import { hourRequest } from '../../support/source-tables.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';
import { asRole } from '../../support/template-database.ts';
import { plainModel } from '../../support/plain-model.ts';

const never = new AbortController().signal;
const applicationName = 'beside a policy';
const role = `hidden_rows_${process.pid}`;
const hidden = { code: 'source.unsupported', detail: expect.stringMatching(/row-level security/) };
let url: string;
let source: Source;
const owner = `${role}_owner`;

const relation = { schema: 'public', name: 'My "Orders\'' };
const model = plainModel('orders', { id: 'integer' }, { relation });
const filtered: Model = { ...model, name: 'filtered', rowSecurity: 'filtered' };
const table = `"My ""Orders'"`;
const views = ['plain', 'owned', 'invoked', 'nested', 'kept', 'joined'] as const;
const viewModel = (name: string) => ({ ...model, name, relation: { schema: 'public', name } });
const request = hourRequest({ model: 'orders' });

const database = useStage(createEmptyDatabase);
beforeAll(async () => {
  await database.admin.query(`create role ${role} login password 'reader'; create role ${owner}`);
  await database.admin.query(
    `create table ${table} (id int primary key, team int not null, at timestamptz not null);
     insert into ${table} select n, 1, '2024-03-01T00:30:00Z' from generate_series(1, 3) n;
     grant select on ${table} to ${role}; grant pg_read_all_stats to ${role}`,
  );
  url = asRole(database.url, role);
  source = createPostgresSource({
    connectionString: url,
    applicationName,
    plan: planModels([model, filtered, ...views.map(viewModel)]),
  });
});

afterAll(async () => {
  await endSessions();
  await database?.admin.query(
    `drop owned by ${role}, ${owner} cascade; drop role ${role}, ${owner}`,
  );
});

async function countRows(of = request.model): Promise<number | null> {
  const snapshot = await source.open({ ...request, model: of }, never);
  await snapshot.close();
  return snapshot.totalCount;
}

test('hidden rows are an error, not an empty interval, until a policy shows some', async () => {
  expect(await countRows()).toBe(3);
  const seen = await source.open(request, never);
  await seen.close();
  await database.admin.query(`alter table ${table} enable row level security`);
  await expect(countRows()).rejects.toMatchObject(hidden);
  const earlier = { snapshot: seen.snapshot, digest: null, count: 3 };
  const late = mayHaveLateRows(source, request, earlier, null, never);
  await expect(late).rejects.toMatchObject(hidden);
  expect((await checkModel(url, model, ['1'])).findings).toContainEqual({
    severity: 'error',
    detail: expect.stringMatching(/row-level security hides every row/),
  });
  // None of these lets the role read.
  await database.admin.query(
    `create policy restricts on ${table} as restrictive using (true);
     create policy writes on ${table} for insert with check (true);
     create policy others on ${table} to pg_monitor using (true)`,
  );
  await expect(countRows()).rejects.toMatchObject(hidden);
  await database.admin.query(`create policy "some" on ${table} to ${role} using (id < 3)`);
  await expect(countRows()).rejects.toMatchObject({ detail: expect.stringContaining('some') });
  expect(await countRows('filtered')).toBe(2);
  await database.admin.query(`drop policy restricts on ${table}; drop policy others on ${table}`);
});

test.each([
  ['id = 7', 'narrows'],
  [`team = nullif(current_setting('app.current_tenant', true), '')::int`, 'narrows'],
  [`current_setting('sluice.tenant_key')::int = 1`, 'narrows'],
  // Another column than that of the project.
  [`id = current_setting('sluice.tenant_key')::int`, 'narrows'],
  [`team = current_setting('sluice.tenant_key')::int or id = 1`, 'narrows'],
  ['true', 'open'],
  [`team = current_setting('sluice.tenant_key')::int`, 'open'],
  [`team = nullif(current_setting('sluice.tenant_key', true), '')::int`, 'open'],
  [`team::text = current_setting('sluice.tenant_key', true)`, 'open'],
])('the policy %s %s', async (condition, effect) => {
  await database.admin.query(
    `alter table ${table} enable row level security; drop policy if exists "some" on ${table};
     drop policy if exists writes on ${table};
     create policy "some" on ${table} using (${condition})`,
  );
  const findings = (await checkModel(url, model, ['1'])).findings.map(({ detail }) => detail);
  if (effect === 'open') {
    expect(await countRows()).toBe(3);
    await source.describe(request, never);
    expect(findings).not.toContainEqual(expect.stringMatching(/row-level security/));
  } else {
    const says = /the policy some may leave out rows\. .*row_security: filtered/;
    const named = { code: 'source.unsupported', detail: expect.stringMatching(says) };
    await expect(countRows()).rejects.toMatchObject(named);
    await expect(source.describe(request, never)).rejects.toMatchObject(named);
    expect(findings).toContainEqual(expect.stringMatching(/the policy some may leave out rows/));
    await countRows('filtered');
  }
  // A restrictive policy narrows whatever the others show.
  await database.admin.query(
    `create policy everything on ${table} using (true);
     create policy narrower on ${table} as restrictive using (${condition})`,
  );
  const said = { detail: expect.stringContaining('the policy narrower may') };
  if (effect === 'open') expect(await countRows()).toBe(3);
  else await expect(countRows()).rejects.toMatchObject(said);
  await database.admin.query(
    `drop policy narrower on ${table}; drop policy everything on ${table}`,
  );
});

test('a policy that is dropped while the rows are looked for is not taken for one that shows them', async () => {
  await database.admin.query(
    `alter table ${table} enable row level security; drop policy if exists "some" on ${table};
     create policy "some" on ${table} using (true)`,
  );
  const session = await openSession(database.adminUrl);
  await session.query(`begin; drop policy "some" on ${table}`);
  const counting = countRows();
  counting.catch(() => {});
  await until(async () => {
    const waiting = await database.adminSql`
      select from pg_stat_activity where application_name = ${applicationName} and wait_event_type = 'Lock'`;
    return waiting.rowCount === 1;
  });
  await session.query('commit');
  await expect(counting).rejects.toMatchObject(hidden);
});

test('rows that are hidden from the role that a view reads with are an error too', async () => {
  await database.admin.query(
    `create table "Lines" (id int primary key, team int not null, at timestamptz not null);
     insert into "Lines" select n, 1, '2024-03-01T00:30:00Z' from generate_series(1, 3) n;
     grant select on "Lines" to ${role}, ${owner};
     create view plain as select * from "Lines";
     create view owned as select * from plain where exists (select from "Lines");
     alter view owned owner to ${owner};
     create view invoked with (security_invoker) as select * from "Lines";
     create view nested as select * from invoked;
     create materialized view kept as select * from nested;
     alter materialized view kept owner to ${owner};
     create view joined as select * from kept;
     grant select on ${views.join(', ')} to ${role}; grant select on plain, nested, kept to ${owner}`,
  );
  /** By view: its number of rows, or which role sees none of them. */
  const seen = async () => {
    const all = views.map(async (view) => {
      const count = await countRows(view).catch((error: { detail: string }) => {
        expect(error).toMatchObject(hidden);
        expect(error.detail).toContain('every row of public."Lines" from the role');
        return / from the role (\S+), with whose rights the view public\./.exec(error.detail)?.[1];
      });
      return [view, count] as const;
    });
    return Object.fromEntries(await Promise.all(all));
  };
  const all = { plain: 3, owned: 3, invoked: 3, nested: 3, kept: 3, joined: 3 };
  expect(await seen()).toEqual(all);

  await database.adminSql`alter table "Lines" enable row level security`;
  const ofOwner = { owned: owner, kept: owner, joined: owner };
  expect(await seen()).toEqual({ ...all, invoked: role, nested: role, ...ofOwner });
  const earlier = { snapshot: '1:1:', digest: null, count: 3 };
  const late = mayHaveLateRows(source, { ...request, model: 'owned' }, earlier, null, never);
  await expect(late).rejects.toMatchObject(hidden);
  expect((await checkModel(url, viewModel('owned'), ['1'])).findings).toContainEqual({
    severity: 'error',
    detail: expect.stringContaining(`from the role ${owner}, with whose rights`),
  });

  await database.admin.query(`create policy "lines" on "Lines" to ${role} using (true)`);
  expect(await seen()).toEqual({ ...all, ...ofOwner });
  await database.admin.query(
    `drop policy "lines" on "Lines"; alter table "Lines" owner to ${owner}`,
  );
  expect(await seen()).toEqual({ ...all, invoked: role, nested: role });
  await database.adminSql`alter table "Lines" force row level security`;
  expect(await seen()).toEqual({ ...all, invoked: role, nested: role, ...ofOwner });
  await database.admin.query(`alter role ${owner} bypassrls`);
  expect(await seen()).toEqual({ ...all, invoked: role, nested: role });
});
