import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DataInterval } from '../../../src/foundation/domain/time.ts';
import { acceptIntervals } from '../../../src/state/store/intervals/coverage.ts';
import {
  deliveredCount as count,
  createTable,
  type DeliveredSide,
  openDeliveredSide,
  type SourceCase,
} from '../../support/delivered-side.ts';
import { isNightly } from '../../support/nightly.ts';
import { withClient } from '../../support/drop-database.ts';
import { type OwnPostgres, startOwnPostgres } from '../../support/postgres-server.ts';
import { queueBackends, type TestQueueBackend } from '../../support/queue-backends.ts';

const prune = `delete from T where id <= 180;`;
const late = 'insert into T select 2001, team, at, v from T where id = 190;';
const partitioned =
  'create table V (like T) partition by range (at); alter table V attach partition T default';
const alive = 'create view V as select id, team, at, v from T where deleted_at is null';
/** PostgreSQL compares its texts of a `character(n)` without their padding, and files have the padding. */
const padded = 'create view V as select code, id, team, at from T;';

/** A source to which something happens after its rows were delivered. */
const given = (name: string, event: string, more: Partial<SourceCase> = {}): SourceCase => {
  return { name, event, right: count, ...more };
};
const withLate = { right: count + 1 };
const typed = (columns: Readonly<Record<string, string>>) =>
  Object.entries(columns).map(([name, type]) => ({ name, type }));

/** Within `LATE_LOOKBACK_HOURS`. */
const cases: readonly SourceCase[] = [
  given('pruned', prune),
  given('updated', `${prune} update T set v = v || '!' where id = 190;`),
  given('retyped', `${prune} alter table T alter v type varchar(200);`),
  given('filled', `${prune} alter table T add column w int; update T set w = 1;`),
  given('softly_deleted', 'update T set deleted_at = now() where id <= 180;', { view: alive }),
  given('rolling', 'update shop.rolling_from set kept = 180;', {
    view: 'create view V as select id, team, at, v from T where id > (select kept from shop.rolling_from)',
  }),
  given('truncated', 'truncate T;'),
  given('renamed', 'alter table T rename to gone; create table T (like shop.gone including all);'),
  given('dropped', `drop table T; ${createTable};`),
  given('detached', 'alter table V detach partition T;', { view: partitioned }),
  given('late_and_pruned', `${prune} ${late}`, withLate),
  given('late_behind_a_view', `update T set deleted_at = now() where id <= 180; ${late}`, {
    view: alive,
    ...withLate,
  }),
  given(
    'attached_and_pruned',
    `${prune} create table shop.older (like T including all);
      insert into shop.older select 2001, team, at, v from T where id = 190;
      alter table V detach partition T; delete from T where id = 190;
      alter table V attach partition shop.older default;`,
    { view: partitioned, ...withLate },
  ),
  given('granted', `${prune} ${late}`, { ...withLate, readsColumns: true }),
  given('shared_keys', `delete from T where id in (4, 6, 8); ${late}`, {
    view: 'create view V as select id / 2 as pair, id, team, at from T',
    ...withLate,
    model: { key_columns: ['pair'], columns: typed({ pair: 'bigint', id: 'bigint' }) },
  }),
  given('padded', `drop view V; alter table T alter code type text; ${padded}`, {
    view: `alter table T add column code char(8); update T set code = id::text; ${padded}`,
    model: { key_columns: ['code'], columns: typed({ code: 'char(8)', id: 'bigint' }) },
  }),
];

/** Its late rows would have other columns than the files. */
const retypedKey = given('retyped_key', `alter table T alter id type numeric; ${late}`);

/** By day those that lose rows in the most different ways, and those of the tests below. */
const isByDay = ({ name }: SourceCase) =>
  ['updated', 'filled', 'truncated', 'late_behind_a_view'].includes(name);
const tested = isNightly ? cases : cases.filter(isByDay);

const idsOf = (rows: readonly Readonly<Record<string, unknown>>[]) => rows.map(({ id }) => id);

async function expectDelivered(open: DeliveredSide, { name, right }: SourceCase): Promise<void> {
  const ids = idsOf(await open.delivered(name));
  expect(ids).toHaveLength(right);
  expect(new Set(ids).size).toBe(right);
  const failed = await open.side.db.query(
    `select latest_error from runs where export_id = $1 and status <> 'Completed'`,
    [open.idOf(name)],
  );
  expect(failed).toEqual([]);
}

describe('delivered rows', () => {
  let open: DeliveredSide;
  beforeAll(async () => {
    open = await openDeliveredSide([...tested, retypedKey], { LATE_LOOKBACK_HOURS: '3' });
    await open.start();
  });
  afterAll(() => open?.close());

  it.each(tested)(
    'stay delivered when the source is $name, and a late one is added',
    async (each) => {
      const before = await open.snapshotOf(each.name);
      expect(await open.delivered(each.name)).toHaveLength(count);
      await open.run(each);
      await open.untilLookedBack(each.name, before);
      await expectDelivered(open, each);
      expect(await open.verify(each.name)).toMatchObject({ breaches: 0, failure: null, late: 0 });
    },
  );

  it('get late ones in their own format and by their own query, whatever the export has now', async () => {
    const before = await open.snapshotOf('updated');
    await open.side
      .sql`update batch_exports set destination_config = destination_config || '{"file_format": "CSV"}',
              dsl_query = 'SELECT id FROM updated WHERE id < 0' where id = ${open.idOf('updated')}`;
    await open.source.query(
      `insert into shop.updated select 2001, team, at, v from shop.updated where id = 190`,
    );
    await open.untilLookedBack('updated', before);
    const rows = await open.delivered('updated');
    expect(rows).toHaveLength(count + 1);
    expect(rows.at(-1)).toMatchObject({ id: 2001, v: 'v190!' });
  });

  it('are not replaced by fewer, unless a person asks for it', async () => {
    const refused = await open.ended('truncated', {});
    expect(refused).toEqual({
      status: 'Failed',
      error: expect.stringMatching(
        /^source.rows_missing: .*200 rows are delivered, 0 rows are in the new files, and 200 delivered rows are missing/s,
      ),
    });
    expect(await open.delivered('truncated')).toHaveLength(count);
    expect(await open.ended('truncated', { dropsMissing: true })).toMatchObject({
      status: 'Completed',
    });
    expect(await open.delivered('truncated')).toEqual([]);
  });

  it('wait for a person if the export has another destination now', async () => {
    const id = open.idOf('filled');
    await open.side.sql`
      update batch_exports set destination_version = destination_version + 1 where id = ${id}`;
    await open.source.query(
      `insert into shop.filled select 2001, team, at, v from shop.filled where id = 190;
       delete from shop.filled where id in (191, 192)`,
    );
    const { rows: left } = await open.source.query('select id from shop.filled');
    expect(await open.untilWaits('filled')).toContain(
      `the export has another destination now than the files of the interval. The source has ${left.length} rows now, and ${count} were delivered there`,
    );
    const logged = await open.side.sql`
      select from log_entries where export_id = ${id} and level = 'WARNING'
        and message like '%run.late_rows_wait%'`;
    expect(logged).toHaveLength(1);
    expect(await open.delivered('filled')).toHaveLength(count);
  });

  it('are proven without late ones, and say so, once a person has accepted that', async () => {
    const { name } = retypedKey;
    const { db } = open.side;
    await open.run(retypedKey);
    expect(await open.untilWaits(name)).toContain('id numeric instead of id bigint');
    expect(await open.verify(name)).toMatchObject({ breaches: 1, unproven: [] });
    const [interval] = await open.side.sql<DataInterval>`
      select (extract(epoch from data_interval_start) * 1000)::bigint as start,
              (extract(epoch from data_interval_end) * 1000)::bigint as "end" from receipts
                where export_id = ${open.idOf(name)}`;
    await acceptIntervals(db, open.idOf(name), interval ? [interval] : []);
    expect(await open.verify(name)).toMatchObject({
      breaches: 0,
      unproven: [
        expect.stringMatching(/ 1 row missing from the files: a person has accepted that: 2001$/),
      ],
    });
  });
});

describe.runIf(isNightly)('delivered rows of a model that gets a key column later', () => {
  let open: DeliveredSide;
  const keyed = given('keyed', late);
  beforeAll(async () => {
    open = await openDeliveredSide([keyed], { LATE_LOOKBACK_HOURS: '3' });
    await open.start();
  });
  afterAll(() => open?.close());

  it('are counted, late ones wait for a person, and the interval can be made anew', async () => {
    await open.stop();
    const columns = typed({ id: 'bigint', at: 'timestamptz', v: 'text', secret: 'text' });
    await open.changeModel('keyed', { key_columns: ['id', 'secret'], columns });
    expect(await open.verify('keyed')).toMatchObject({
      ...{ breaches: 0, failure: null },
      leftOut: [expect.stringContaining('the rows of 1 interval were only counted')],
    });
    await open.start();
    await open.run(keyed);
    expect(await open.untilWaits('keyed')).toContain('the files have no column secret');
    expect(await open.ended('keyed', {})).toEqual({
      status: 'Failed',
      error: expect.stringMatching(/^source.rows_missing: .* cannot be known: the files have no/s),
    });
    expect(await open.ended('keyed', { dropsMissing: true })).toMatchObject({
      status: 'Completed',
    });
    expect(await open.delivered('keyed')).toHaveLength(count + 1);
    expect(await open.verify('keyed')).toMatchObject({
      ...{ breaches: 0, failure: null, leftOut: [] },
    });
  });
});

const restart = `checkpoint;`;
/** By default, only intervals with transactions that were not seen to end are looked at again. */
const byDefault: readonly SourceCase[] = [
  given('outbox', `${prune} update T set v = v || '!' where id = 190;`),
  given('open_batch', prune, withLate),
  given('pruned_before', `${prune} ${restart}`),
  given('truncated_before', `truncate T; ${restart}`),
  given('unlogged', restart, { kind: 'unlogged' }),
];

describe.runIf(isNightly)('delivered rows of a server that crashes and starts again', () => {
  let open: DeliveredSide;
  let own: OwnPostgres;
  let queue: TestQueueBackend | undefined;
  const before = new Map<string, string>();
  beforeAll(async () => {
    own = await startOwnPostgres();
    await withClient(own.adminUrl, (client) =>
      client.query(`grant pg_checkpoint to ${own.server.owner.name}`),
    );
    // The other queue than that of the tests above.
    queue = await queueBackends
      .find(({ name, available }) => name === 'Redis' && available())
      ?.open();
    const readers = byDefault.map((each) => ({ ...each, readsColumns: true }));
    open = await openDeliveredSide(readers, { ...queue?.env }, own);
    const batch = await open.source.connect();
    await batch.query('begin');
    await batch.query(
      `insert into shop.open_batch select 2001, team, at, v from shop.open_batch where id = 190`,
    );
    await open.start();
    await open.stop();
    for (const each of byDefault) {
      before.set(each.name, await open.snapshotOf(each.name));
      await open.run(each);
    }
    await batch.query('commit');
    batch.release();
    await own.restart('immediate');
    const empty = await open.source.query('select count(*)::int as rows from shop.unlogged');
    expect(empty.rows).toEqual([{ rows: 0 }]);
    // What the worker has looked at meanwhile had no late rows.
    await open.side.db.query('update receipts set settled = false');
    await open.start();
  });
  afterAll(async () => {
    await open?.close();
    await queue?.stop();
    await own?.stop();
  });

  it.each(byDefault)('stay delivered when the source is $name', async (each) => {
    await open.untilLookedBack(each.name, before.get(each.name) ?? '');
    await expectDelivered(open, each);
  });
});
