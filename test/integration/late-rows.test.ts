import type { Model } from '../../src/foundation/domain/model.ts';
import { afterEach, beforeAll, expect, it } from 'vitest';
import { createPostgresSource, planModels } from '../../src/rows/sources/index.ts';
import type { EarlierExport, Source, SourceRequest } from '../../src/rows/sources/source.ts';
import { createEmptyDatabase, untilWritersEnded } from '../support/database.ts';
import {
  endSessions,
  insertEvent,
  isVirtual,
  openSession,
  timeOf,
} from '../support/source-sessions.ts';
import { columnBytes, createEvents, readAll, hourRequest } from '../support/source-tables.ts';
import { mayHaveLateRows } from '../support/late-rows.ts';
import { useStage } from '../support/use-stage.ts';
import { atNight } from '../support/nightly.ts';
import { plainModel } from '../support/plain-model.ts';

const signal = new AbortController().signal;

const database = useStage(createEmptyDatabase);
beforeAll(async () => {
  await database.sql`
    create table parts (id int, team int, at timestamptz) partition by range (at);
    create table parts_1 partition of parts default;
    create view shown as select id, team, at from parts`;
  await database.pool.query(createEvents);
});

afterEach(async () => {
  await endSessions();
  await database.sql`truncate events`;
});

/** Exports the interval. @returns what a later look-back compares with */
async function see(source: Source, request: SourceRequest): Promise<EarlierExport> {
  const opened = await source.open(request, signal);
  await readAll(opened, signal);
  const { digest, count } = opened.keySet() ?? { digest: null, count: -1 };
  expect(count).toBe(opened.totalCount);
  await opened.close();
  return { snapshot: opened.snapshot, digest, count };
}

const sourceOf = (model: Model, more = {}) =>
  createPostgresSource({
    ...{ connectionString: database.url, plan: planModels([model]), ...more },
  });
/** Whether rows came since an export, which another export of the same request looks for. */
const isLate = (source: Source, request: SourceRequest, earlier: EarlierExport) =>
  mayHaveLateRows(source, request, earlier, null, signal);

const settlingSource = (settleTimeoutMs: number) =>
  createPostgresSource({ connectionString: database.url, settleTimeoutMs, settlePollMs: 20 });

it.each(['parts', 'shown'])('late rows of %s are found, and none if nothing came', async (name) => {
  await database.sql`truncate parts`;
  await database.sql`insert into parts values (1, 1, '2024-03-01T00:30:00Z')`;
  const source = sourceOf(plainModel(name));
  const request = hourRequest({ model: name });
  const earlier = await see(source, request);
  const late = () => isLate(source, request, earlier);
  expect(await late()).toBe(false);
  await database.sql`insert into parts values (2, 2, '2024-03-01T00:31:00Z')`;
  expect(await late(), 'another project').toBe(false);
  await database.sql`insert into parts values (3, 1, '2024-03-01T00:31:00Z')`;
  expect(await late()).toBe(true);
  const then = await see(source, request);
  await database.sql`delete from parts where id = 1`;
  await database.sql`insert into parts values (4, 1, '2024-03-01T00:32:00Z')`;
  expect(await isLate(source, request, then), 'one for one').toBe(true);
  await database.sql`insert into parts select * from parts`;
  // Beside an open transaction of another test the snapshot would count these rows as late.
  await untilWritersEnded(database.pool);
  const twice = await see(source, request);
  expect(twice.count).toBe(6 - 2);
  expect(await isLate(source, request, twice), 'keys that repeat').toBe(false);
  await database.sql`delete from parts where id = 4`;
  // The rows of a view do not show their writer: late ones may have come.
  expect(await isLate(source, request, twice), 'fewer').toBe(name === 'shown');
});

it('rows of an attached partition are found though their writer is older than the snapshot', async () => {
  await database.sql`
    create table spread (id int, team int, at timestamptz) partition by range (at);
    create table spread_old (id int, team int, at timestamptz);
    insert into spread_old values (1, 1, '2024-03-01T00:30:00Z')`;
  const source = sourceOf(plainModel('spread'));
  const request = hourRequest({ model: 'spread' });
  const earlier = await see(source, request);
  await database.sql`
    alter table spread attach partition spread_old for values from ('2024-01-01') to ('2025-01-01')`;
  expect(await isLate(source, request, earlier)).toBe(true);
});

it('a label of an enum that is renamed makes no row late', async () => {
  await database.sql`
    create type kind as enum ('new', 'old');
    create table labelled (id kind, team int, at timestamptz);
    insert into labelled values ('new', 1, '2024-03-01T00:30:00Z'), ('old', 1, '2024-03-01T00:30:00Z')`;
  const model = plainModel('labelled');
  const columns = model.columns.map((column) => ({ ...column, sourceType: 'kind' }));
  const source = sourceOf({ ...model, columns });
  const request = hourRequest({ model: 'labelled' });
  await untilWritersEnded(database.pool);
  const earlier = await see(source, request);
  await database.sql`alter type kind rename value 'new' to 'open'`;
  expect(await isLate(source, request, earlier)).toBe(false);
  await database.sql`insert into labelled values ('old', 1, '2024-03-01T00:31:00Z')`;
  expect(await isLate(source, request, earlier)).toBe(true);
});

atNight('keys that the query does not select are read, and no encoder sees them', async () => {
  await database.sql`
    create table pairs (id int, part numeric, note text, team int, at timestamptz);
    insert into pairs select n, n / 3.0, 'note ' || n, 1, '2024-03-01T00:30:00Z' from generate_series(1, 700) n`;
  const types = { id: 'integer', note: 'text' };
  const model = plainModel('pairs', types, { keyColumns: ['part', 'id'] });
  const source = sourceOf(model, { blockBytes: 4_096 });
  const whole = hourRequest({ model: 'pairs' });
  const read = async (dslQuery: string | null) => {
    const request = { ...whole, dslQuery };
    const opened = await source.open(request, signal);
    const blocks = await readAll(opened, signal);
    await opened.close();
    const set = opened.keySet() ?? { digest: null, count: -1 };
    const earlier = { snapshot: opened.snapshot, ...set };
    expect(await isLate(source, request, earlier)).toBe(false);
    return { columns: opened.columns.map(({ name }) => name), blocks, set };
  };
  const all = await read(null);
  const some = await read('SELECT note FROM pairs');
  const filtered = await read(`SELECT note, id AS number FROM pairs WHERE note <> 'no note'`);
  expect(some.columns).toEqual(['note']);
  expect(filtered.columns).toEqual(['note', 'number']);
  expect(some.set).toEqual(all.set);
  expect(filtered.set).toEqual(all.set);
  expect(columnBytes(some.blocks, 'note')).toEqual(columnBytes(all.blocks, 'note'));
  expect(some.blocks.length).toBeGreaterThan(2);
});

it('finds a late row of each kind among known ones, once its transaction has ended', async () => {
  const source = settlingSource(100);
  const [late, savepoint, seen] = await Promise.all([
    openSession(database.url),
    openSession(database.url),
    openSession(database.url),
  ]);
  await late.query('BEGIN; SELECT 1');
  await savepoint.query('BEGIN; SAVEPOINT before_row');
  await insertEvent(savepoint, 'under a savepoint');
  await insertEvent(seen, 'in time');
  const end = await timeOf(database.pool);
  const interval = { start: end - 3_600_000, end };
  const request = hourRequest({ interval });

  const { settled, pending } = await source.settle(interval, signal);
  expect(settled).toBe(false);
  expect(pending.filter(isVirtual)).toHaveLength(2);
  const earlier = await see(source, request);
  expect(earlier.count).toBe(1);
  const hasLateRows = () => isLate(source, request, earlier);
  expect(await source.recheck(interval, pending, signal)).toMatchObject({ settled: false });
  expect(await hasLateRows()).toBe(false);

  await savepoint.query('RELEASE before_row; COMMIT');
  const left = await source.recheck(interval, pending, signal);
  expect(left.pending.filter(isVirtual)).toHaveLength(1);
  expect(await hasLateRows()).toBe(true);
  // It has a virtual id only until now, so its transaction id is beyond the snapshot.
  await insertEvent(late, 'began before, wrote after');
  await late.query('COMMIT');
  expect(await source.recheck(interval, left.pending, signal)).toMatchObject({ settled: true });
  expect(await hasLateRows()).toBe(true);
  const again = await see(source, request);
  expect([again.count, await isLate(source, request, again)]).toEqual([3, false]);
});

it('takes rows that were removed since for no late ones', async () => {
  const source = settlingSource(1000);
  const session = await openSession(database.url);
  for (const event of ['a', 'b']) await insertEvent(session, event);
  const end = await timeOf(database.pool);
  const interval = { start: end - 3_600_000, end };
  const request = hourRequest({ interval });
  // Otherwise a row that was seen looks late, and the interval only runs once more.
  await untilWritersEnded(database.pool);
  const earlier = await see(source, request);
  await session.query(`DELETE FROM events WHERE event = 'a'`);
  expect(await isLate(source, request, earlier)).toBe(false);
  await insertEvent(session, 'late');
  const at = new Date(end - 1_000);
  await session.query(`UPDATE events SET inserted_at = $1 WHERE event = 'late'`, [at]);
  expect(await isLate(source, request, earlier)).toBe(true);
});
