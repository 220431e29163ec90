/** Tables that are rewritten or replaced at the moment at which their rows are looked for. */

import { afterEach, expect, test } from 'vitest';
import { createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import { createEmptyDatabase } from '../../support/database.ts';
import { endSessions, openSession } from '../../support/source-sessions.ts';
import { readAll, hourRequest } from '../../support/source-tables.ts';
import { until } from '../../support/until.ts';
import { mayHaveLateRows } from '../../support/late-rows.ts';
import { useStage } from '../../support/use-stage.ts';
import { plainModel } from '../../support/plain-model.ts';

const never = new AbortController().signal;
const applicationName = 'beside a change';
const rows = 3;

const database = useStage(createEmptyDatabase);
afterEach(endSessions);

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
async function beside<T>(change: string, work: () => Promise<T>): Promise<T> {
  const session = await openSession(database.url);
  await session.query(`begin; ${change}`);
  const working = work();
  working.catch(() => {});
  await until(async () => {
    const waiting = await database.sql`
      select from pg_stat_activity where application_name = ${applicationName} and wait_event_type = 'Lock'`;
    return waiting.rowCount === 1;
  });
  await session.query('commit');
  return working;
}

test.each([
  [
    'rewritten',
    `create table rewritten ${columns}; insert into rewritten ${filled}`,
    'alter table rewritten alter column id type bigint',
  ],
  [
    'filled again',
    `create table "filled again" ${columns}; insert into "filled again" ${filled}`,
    `truncate "filled again"; insert into "filled again" ${filled}`,
  ],
  [
    'swapped',
    `create table swapped ${columns}; insert into swapped ${filled}; create table coming ${columns}`,
    `lock table swapped in access exclusive mode; insert into coming select * from swapped;
     alter table swapped rename to gone; alter table coming rename to swapped`,
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
  [
    'behind a view',
    `create table behind ${columns}; insert into behind ${filled}; create view "behind a view" as select id, team, at from behind`,
    `truncate behind; insert into behind ${filled}`,
  ],
])('all rows are seen of a table that is %s meanwhile', async (name, made, change) => {
  await database.pool.query(made);
  const { source, request } = exportOf(name);
  const snapshot = await beside(change, () => source.open(request, never));
  const blocks = await readAll(snapshot, never);
  await snapshot.close();
  expect(snapshot.totalCount).toBe(rows);
  expect(blocks.reduce((sum, { rowCount }) => sum + rowCount, 0)).toBe(rows);
});

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
