import { beforeAll, beforeEach, expect, it } from 'vitest';
import type { Destination } from '../../../src/rows/destinations/destination.ts';
import type { Model } from '../../../src/foundation/domain/model.ts';
import { triggerStatements } from '../../../src/rows/changes/trigger-sql.ts';
import { checkModel, createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import {
  changingModel,
  createChangingTable,
  tenant,
  runSql,
} from '../../support/changing-table.ts';
import { withClient } from '../../support/drop-database.ts';
import { readByIcebird, snapshotsOf } from '../../support/icebird.ts';
import { encodingOf, firstJob, openedBy, tableBelow } from '../../support/interval-bench.ts';
import { bucket, openStore } from '../../support/s3-destination.ts';
import { startOwnPostgres } from '../../support/postgres-server.ts';
import { follow, SequenceReader, SequenceSide } from '../../support/sequence-side.ts';
import { inTest, useEach, useStage } from '../../support/use-stage.ts';

const server = useStage(startOwnPostgres);
const opened = useEach(openedBy.File);

beforeAll(async () => {
  await createChangingTable(server.adminUrl);
}, 120_000);
beforeEach(() => sql('truncate things, gone', insert(1, 'one'), insert(2, 'two')));

const sql = (...statements: readonly string[]) => runSql(server.adminUrl, ...statements);

const insert = (id: number, note: string) =>
  `insert into things values (${id}, ${tenant}, ${id % 2}, '${note}', 1.50)`;

function sideOf(
  model: Model = changingModel,
  changes: object = {},
  connectionString = server.adminUrl,
  destination: Destination = opened.destination,
) {
  const source = createPostgresSource({ connectionString, plan: planModels([model]) });
  return new SequenceSide(source, destination, changes);
}

const next = (side: SequenceSide, reader: SequenceReader) =>
  follow(side, reader, opened.destination);
/** The same after statements. */
async function nextAfter(
  side: SequenceSide,
  reader: SequenceReader,
  statements: readonly string[],
) {
  await sql(...statements);
  return next(side, reader);
}

it('continues after what changes no row, and begins anew after what changes rows and not their versions', async () => {
  const [side, reader] = [sideOf(), new SequenceReader()];
  const baseAfter = (...statements: readonly string[]) => nextAfter(side, reader, statements);
  expect(await baseAfter()).toBe('first');
  expect(await baseAfter('analyze things', insert(3, 'three'))).toBe(null);
  const off = 'alter table things disable trigger zz_sluice_stamp';
  const on = 'alter table things enable always trigger zz_sluice_stamp';
  expect(await baseAfter(off, `update things set note = 'quiet'`, on)).toBe('table');
  expect(await baseAfter()).toBe(null);
  const { rows: stamps } = await withClient(server.adminUrl, (client) =>
    client.query(`select pg_get_functiondef('sluice_stamp_things'::regproc) as sql`),
  );
  const idle = `create or replace function sluice_stamp_things() returns trigger language plpgsql as 'begin return new; end'`;
  expect(await baseAfter(idle, `update things set note = 'unseen'`, stamps[0]?.sql)).toBe('table');
  expect(await baseAfter('truncate things', insert(4, 'four'))).toBe('table');
  // Rows of a new partition bring versions from elsewhere, or none.
  const part = [
    'create table things_2 (like things)',
    `insert into things_2 values (9, ${tenant}, 2, 'brought', 1)`,
    'alter table things_2 add primary key (id, kind)',
    'alter table things attach partition things_2 for values in (2)',
  ];
  expect([await baseAfter(...part), reader.rows.has('9')]).toEqual([null, true]);
  expect(
    await baseAfter('alter table things detach partition things_2', 'drop table things_2'),
  ).toBe('parts');
  expect(reader.rows.has('9')).toBe(false);
  side.newBase = 1;
  expect(await baseAfter()).toBe('requested');
  side.move();
  expect(await baseAfter()).toBe('first');
  const { number } = side.last ?? { number: 0 };
  side.era = 'another era';
  expect(await baseAfter()).toBe('era');
  // More than a lost history can have made in an hour.
  expect(side.last?.number).toBeGreaterThan(number + 60);
});

it('brings what was written before the last snapshot and committed after it, also under a savepoint and by a prepared transaction', async () => {
  const [side, reader] = [sideOf(), new SequenceReader()];
  await next(side, reader);
  await withClient(server.adminUrl, async (late) => {
    await late.query('begin');
    await late.query(`update things set note = 'late' where id = 1`);
    await late.query('savepoint a');
    await late.query('delete from things where id = 2');
    await late.query('release a');
    // Newer, and over before the snapshot.
    await sql(insert(3, 'three'));
    await next(side, reader);
    expect(reader.rows.size).toBe(3);
    await late.query(`prepare transaction 'late'`);
    const { from } = side.last ?? {};
    for (const id of [4, 5, 6, 7]) {
      await sql(insert(id, 'new'));
      await next(side, reader);
    }
    expect(side.last?.from).toBe(from);
    await late.query(`commit prepared 'late'`);
  });
  await next(side, reader);
  expect([...reader.rows.keys()].toSorted()).toEqual(['1', '3', '4', '5', '6', '7']);
  expect(reader.rows.get('1')).toContain('late');
  expect(side.last?.deletes).toBe(1);
});

it.each([
  ['things_1', 'disable trigger zz_sluice_stamp', 'zz_sluice_stamp'],
  ['things_0', 'disable trigger zz_sluice_deleted', 'zz_sluice_deleted'],
  // It would not fire in a session with session_replication_role = replica.
  ['things_1', 'enable trigger zz_sluice_stamp', 'zz_sluice_stamp'],
])('refuses a table whose trigger is off: %s, %s', async (table, change, trigger) => {
  const side = sideOf();
  await sql(`alter table ${table} ${change}`);
  const refused = { code: 'model.version_without_trigger' };
  await expect(side.attempt('recorded')).rejects.toMatchObject(refused);
  await sql(`alter table ${table} enable always trigger ${trigger}`);
  await side.attempt('recorded');
});

/** A table with the columns of the model, and its export. */
async function ownTable(name: string, columns: string, about: Partial<Model> = {}) {
  const gone = { schema: 'public', name: `gone_${name}` };
  const model: Model = {
    ...changingModel,
    relation: { schema: 'public', name },
    onSchemaChange: 'follow',
    changes: {
      ...{ versionColumn: 'version', setBy: 'database' },
      deletes: { kind: 'tombstones', relation: gone, days: null },
    },
    ...about,
  };
  await sql(`create table ${name} (${columns})`, ...triggerStatements(model).map((one) => one.sql));
  await sql(`grant select on ${name}, gone_${name} to public`);
  return sideOf(model, {}, server.url);
}
const anyColumns = 'team int, kind int, note text, price numeric(10,2)';

it('refuses a table whose rows can change unseen', async () => {
  const side = await ownTable('unseen', `id bigint primary key, ${anyColumns}`);
  await side.attempt('recorded');
  await sql('alter table unseen set unlogged');
  const refused = { code: 'source.model_invalid', detail: expect.stringContaining('unlogged') };
  await expect(side.attempt('recorded')).rejects.toMatchObject(refused);
  await sql(
    'alter table unseen set logged',
    // Another trigger sets another column.
    `create function louder() returns trigger language plpgsql as 'begin new.note := upper(new.note); return new; end'`,
    'create trigger louder before insert or update on unseen for each row execute function louder()',
    'alter table unseen enable always trigger louder',
    'drop trigger zz_sluice_stamp on unseen',
  );
  await expect(side.attempt('recorded')).rejects.toMatchObject({
    code: 'model.version_without_trigger',
  });
});

it('a policy, and an enum whose value gets another name, make a base', async () => {
  await sql(`create type mood as enum ('good', 'bad')`);
  const columns = `id bigint primary key, ${anyColumns.replace('note text', 'note mood')}`;
  const about = { rowSecurity: 'filtered' as const };
  const [side, reader] = [await ownTable('ruled', columns, about), new SequenceReader()];
  const baseAfter = (...statements: readonly string[]) => nextAfter(side, reader, statements);
  const row = (id: number) => `(${id}, ${tenant}, 0, 'good', 1)`;
  expect(await baseAfter(`insert into ruled values ${row(1)}, ${row(2)}`)).toBe('first');
  expect(await baseAfter(`alter type mood add value 'fair'`)).toBe(null);
  expect(await baseAfter(`alter type mood rename value 'good' to 'fine'`)).toBe('table');
  // Another column of the same name and type: its rows get their values without a write.
  const other = ['rename column price to former', 'add column price numeric(10,2) default 5'];
  expect(await baseAfter(...other.map((change) => `alter table ruled ${change}`))).toBe('table');
  const rule = [
    'alter table ruled enable row level security',
    'create policy mine on ruled using (id = 1)',
  ];
  expect([await baseAfter(...rule), [...reader.rows.keys()]]).toEqual(['table', ['1']]);
  expect(await baseAfter('alter policy mine on ruled using (id = 2)')).toBe('table');
  expect([...reader.rows.keys()]).toEqual(['2']);
  expect(await baseAfter()).toBe(null);
});

it('a key that is spelled in another way is another one, and a row without a key is refused', async () => {
  const side = await ownTable('spans', `id interval unique, ${anyColumns}`);
  const reader = new SequenceReader();
  const put = (id: string) => `insert into spans values (${id}, ${tenant}, 0, 'one', 1)`;
  await sql(put(`'1 day'`), put(`'2 days'`));
  await next(side, reader);
  await sql(`update spans set id = '24 hours' where id = '1 day'`);
  await next(side, reader);
  await sql(`delete from spans where id = '1 day'`, put(`'1 day'`));
  await next(side, reader);
  await sql(
    `update spans set id = '24 hours' where id = '1 day'`,
    `delete from spans where id = '1 day'`,
  );
  await next(side, reader);
  expect([...reader.rows.keys()]).toEqual(['P2D']);
  expect(side.last?.base).toBe(null);
  await sql(put('null'));
  await expect(side.attempt('recorded')).rejects.toMatchObject({
    code: 'source.model_invalid',
    detail: expect.stringContaining('a row has no id'),
  });
});

it('refuses two rows with one key, and models check names them before', async () => {
  const check = () => checkModel(server.adminUrl, changingModel, [tenant]);
  const isTwice = (detail: string) => detail.startsWith('model.key_not_unique');
  const side = sideOf();
  await side.attempt('recorded');
  expect((await check()).findings.filter(({ detail }) => isTwice(detail))).toEqual([]);
  // The table allows it: its unique key has the partition too.
  await sql(`insert into things select id, team, 1 - kind, note, price from things where id = 2`);
  expect((await check()).findings).toContainEqual({
    severity: 'error',
    detail: expect.stringMatching(
      /^model\.key_not_unique: two rows have the same id. Name key_columns/,
    ),
  });
  const refused = { code: 'model.key_not_unique', detail: 'two rows have the key 2' };
  side.newBase += 1;
  await expect(side.attempt('recorded')).rejects.toMatchObject(refused);
  await sql(`update things set note = 'both' where id = 2`);
  side.newBase -= 1;
  await expect(side.attempt('recorded')).rejects.toMatchObject(refused);
  await sql('delete from things where id = 2 and kind = 1');
  await side.attempt('recorded');
});

it('appends each element to an Iceberg table, whose newest rows by key are those of the source', async () => {
  const store = await inTest(openStore());
  await store.destination.probe(new AbortController().signal);
  const { exportId } = firstJob();
  const encoding = encodingOf({
    ...{ file_format: 'Parquet', compression: 'snappy', table_format: 'iceberg' },
  });
  const table = tableBelow(bucket, exportId);
  const side = sideOf(changingModel, { encoding, table }, server.adminUrl, store.destination);
  const present = async () => {
    const read = await readByIcebird(store.destination, 'p');
    const rows = read.toSorted((a, b) => Number(a._sluice_element) - Number(b._sluice_element));
    const base = Number(rows.findLast((row) => row._sluice_op === 'r')?._sluice_element);
    const since = rows.filter((row) => Number(row._sluice_element) >= base);
    const newest = new Map(since.map((row) => [String(row.id), row] as const));
    const notes = [...newest].filter(([, row]) => row._sluice_op !== 'd');
    return notes.map(([id, { note }]) => `${id} ${note}`).toSorted();
  };
  const truth = () =>
    [...(side.truth.get(side.last?.number ?? -1) ?? [])]
      .map(([id, row]) => `${id} ${JSON.parse(row).note}`)
      .toSorted();
  await side.attempt('recorded');
  await sql(insert(3, 'three'), `update things set note = 'zwei' where id = 2`);
  await sql('delete from things where id = 1');
  await side.attempt('recorded');
  expect(await present()).toEqual(['2 zwei', '3 three']);
  // Its commit is lost; the next element has all of it again.
  await sql(`update things set note = 'drei' where id = 3`);
  await side.attempt('dies after manifest');
  side.giveUp();
  await sql(insert(4, 'four'));
  await side.attempt('recorded');
  expect(await present()).toEqual(truth());
  await sql('truncate things', insert(5, 'five'));
  await side.attempt('recorded');
  expect([side.last?.base, await present()]).toEqual(['table', ['5 five']]);
  const snapshots = await snapshotsOf(store.destination, 'p');
  expect(snapshots.length).toBeGreaterThanOrEqual(4);
  expect(await readByIcebird(store.destination, 'p', snapshots[0])).toHaveLength(2);
});

it('deletes a row that the query, or the marker of deleted rows, no longer wants, and shows nothing else of it', async () => {
  const changes = changingModel.changes && {
    ...changingModel.changes,
    deletes: { kind: 'column' as const, column: 'removed_at' },
  };
  await sql('alter table things add column removed_at timestamptz');
  const [side, reader] = [
    sideOf({ ...changingModel, changes: changes ?? null }),
    new SequenceReader(),
  ];
  await side.attempt('recorded');
  await reader.catchUp(opened.destination);
  await sql(
    'update things set removed_at = now() where id = 1',
    `update things set note = 'zwei' where id = 2`,
  );
  await side.attempt('recorded');
  await reader.catchUp(opened.destination);
  expect([...reader.rows]).toEqual([
    ['2', JSON.stringify({ id: 2, kind: 0, note: 'zwei', price: 1.5 })],
  ]);
  expect(side.last).toMatchObject({ number: 1, deletes: 1, base: null });
  await sql('update things set removed_at = null where id = 1');
  await next(side, reader);
  expect(reader.rows.size).toBe(2);
  await sql('alter table things drop column removed_at');
});

it('a version that is a time goes back to the oldest transaction that was open, and an unknown one makes a base', async () => {
  await sql(
    'create table if not exists timed (id bigint primary key, team int, kind int, note text, price numeric(10,2), at timestamptz)',
    `create or replace function touch() returns trigger language plpgsql as $$ begin new.at := now(); return new; end $$`,
    'create or replace trigger touch before insert or update on timed for each row execute function touch()',
    'alter table timed enable always trigger touch',
    `insert into timed values (1, ${tenant}, 0, 'one', 1)`,
  );
  const model: Model = {
    ...changingModel,
    relation: { schema: 'public', name: 'timed' },
    changes: { versionColumn: 'at', setBy: 'database', deletes: { kind: 'none' } },
  };
  const [side, reader] = [sideOf(model), new SequenceReader()];
  await withClient(server.adminUrl, async (late) => {
    await late.query('begin');
    await late.query(`insert into timed values (2, ${tenant}, 0, 'late', 1)`);
    await next(side, reader);
    const { rows } = await late.query(
      `select now() - interval '1 minute' >= $1::timestamptz as is`,
      [side.last?.next],
    );
    expect(rows).toEqual([{ is: true }]);
    await late.query('commit');
  });
  await next(side, reader);
  expect([side.last?.base, reader.rows.size]).toEqual([null, 2]);
  await withClient(server.adminUrl, async (two) => {
    await two.query('begin');
    await two.query(`insert into timed values (3, ${tenant}, 0, 'prepared', 1)`);
    await two.query(`prepare transaction 'long'`);
    const { from } = side.last ?? {};
    await next(side, reader);
    // Nothing shows when it began: the bound stays.
    expect(side.last?.next).toBe(side.last?.from);
    expect(side.last?.from).not.toBe(from);
    await two.query(`commit prepared 'long'`);
  });
  await next(side, reader);
  expect(reader.rows.size).toBe(3);
});
