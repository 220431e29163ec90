/** Tables whose rows row-level security hides, or that are replaced while their rows are looked for: they look empty, without an error. */

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Model } from '../../../src/foundation/domain/model.ts';
import { checkModel, createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import type { Source } from '../../../src/rows/sources/source.ts';
import { createEmptyDatabase } from '../../support/database.ts';
import { mayHaveLateRows } from '../../support/late-rows.ts';
import { endSessions, openSession } from '../../support/source-sessions.ts';
import { hourRequest, readAll } from '../../support/source-tables.ts';
import { atNight, firstByDay } from '../../support/nightly.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';
import { asRole } from '../../support/template-database.ts';
import { plainModel } from '../../support/plain-model.ts';

const never = new AbortController().signal;
const applicationName = 'beside a change';
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

afterEach(endSessions);
afterAll(async () => {
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

const policies = firstByDay(2, [
  // Another column than that of the project.
  [`id = current_setting('sluice.tenant_key')::int`, 'narrows'],
  [`team = nullif(current_setting('sluice.tenant_key', true), '')::int`, 'open'],
  ['id = 7', 'narrows'],
  [`team = nullif(current_setting('app.current_tenant', true), '')::int`, 'narrows'],
  [`current_setting('sluice.tenant_key')::int = 1`, 'narrows'],
  [`team = current_setting('sluice.tenant_key')::int or id = 1`, 'narrows'],
  ['true', 'open'],
  [`team = current_setting('sluice.tenant_key')::int`, 'open'],
  [`team::text = current_setting('sluice.tenant_key', true)`, 'open'],
]);
test.each(policies)('the policy %s %s', async (condition, effect) => {
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
  const counting = beside(`drop policy "some" on ${table}`, countRows, database.adminUrl);
  await expect(counting).rejects.toMatchObject(hidden);
});

atNight('rows that are hidden from the role that a view reads with are an error too', async () => {
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

const rows = 3;

const modelOf = (name: string) => plainModel(name, { id: 'integer' }, { onSchemaChange: 'follow' });

const columns = '(id int, team int, at timestamptz)';
const filled = `select n, 1, timestamptz '2024-03-01T00:30:00Z' from generate_series(1, ${rows}) n`;
const range = `for values from ('2024-01-01') to ('2025-01-01')`;

function exportOf(name: string) {
  const source = createPostgresSource({
    connectionString: database.url,
    applicationName,
    plan: planModels([modelOf(name)]),
  });
  const request = hourRequest({ model: name });
  return { source, request };
}

/** Runs a transaction's statements, and commits once `work`, which it began then, waits for its locks. */
async function beside<T>(change: string, work: () => Promise<T>, by = database.url): Promise<T> {
  const session = await openSession(by);
  await session.query(`begin; ${change}`);
  const working = work();
  working.catch(() => {});
  await until(async () => {
    const waiting = await database.adminSql`
      select from pg_stat_activity where application_name = ${applicationName} and wait_event_type = 'Lock'`;
    return waiting.rowCount === 1;
  });
  await session.query('commit');
  return working;
}

const changes = firstByDay(3, [
  [
    'rewritten',
    `create table rewritten ${columns}; insert into rewritten ${filled}`,
    'alter table rewritten alter column id type bigint',
  ],
  [
    'swapped',
    `create table swapped ${columns}; insert into swapped ${filled}; create table coming ${columns}`,
    `lock table swapped in access exclusive mode; insert into coming select * from swapped;
     alter table swapped rename to gone; alter table coming rename to swapped`,
  ],
  [
    'behind a view',
    `create table behind ${columns}; insert into behind ${filled}; create view "behind a view" as select id, team, at from behind`,
    `truncate behind; insert into behind ${filled}`,
  ],
  [
    'filled again',
    `create table "filled again" ${columns}; insert into "filled again" ${filled}`,
    `truncate "filled again"; insert into "filled again" ${filled}`,
  ],
  [
    'made anew',
    `create table "made anew" ${columns}; insert into "made anew" ${filled}`,
    `lock table "made anew" in access exclusive mode; create table other as select * from "made anew";
     drop table "made anew"; alter table other rename to "made anew"`,
  ],
  [
    'moved to another partition',
    `create table "moved to another partition" ${columns} partition by range (at);
     create table parts_1 partition of "moved to another partition" ${range};
     insert into parts_1 ${filled}; create table parts_2 ${columns}`,
    `alter table "moved to another partition" detach partition parts_1; insert into parts_2 select * from parts_1;
     alter table "moved to another partition" attach partition parts_2 ${range}`,
  ],
  [
    'moved from another schema',
    `create schema aside; create schema gone; create table aside."moved from another schema" ${columns};
     create table "moved from another schema" ${columns}; insert into "moved from another schema" ${filled}`,
    `lock table "moved from another schema" in access exclusive mode;
     insert into aside."moved from another schema" select * from "moved from another schema";
     alter table "moved from another schema" set schema gone; alter table aside."moved from another schema" set schema public`,
  ],
  [
    'filled again in a child',
    `create table "filled again in a child" ${columns}; create table child () inherits ("filled again in a child");
     insert into child ${filled}`,
    `truncate child; insert into child ${filled}`,
  ],
]);
test.each(changes)(
  'all rows are seen of a table that is %s meanwhile',
  async (name, made, change) => {
    await database.pool.query(made);
    const { source, request } = exportOf(name);
    const snapshot = await beside(change, () => source.open(request, never));
    const blocks = await readAll(snapshot, never);
    await snapshot.close();
    expect(snapshot.totalCount).toBe(rows);
    expect(blocks.reduce((sum, { rowCount }) => sum + rowCount, 0)).toBe(rows);
  },
);

test('a look-back that meets such a change finds out nothing, and the next one finds the rows', async () => {
  await database.pool.query(`create table late ${columns}; insert into late ${filled}`);
  const { source, request } = exportOf('late');
  const seen = await source.open(request, never);
  await readAll(seen, never);
  const { digest, count } = seen.keySet() ?? { digest: null, count: -1 };
  await seen.close();
  const hasLateRows = () =>
    mayHaveLateRows(source, request, { snapshot: seen.snapshot, digest, count }, null, never);
  const change = `truncate late; insert into late ${filled}; insert into late values (9, 1, '2024-03-01T00:31:00Z')`;
  await expect(beside(change, hasLateRows)).rejects.toMatchObject({ code: 'source.unavailable' });
  expect(await hasLateRows()).toBe(true);
});
