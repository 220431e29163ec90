import fc from 'fast-check';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import {
  changingModel,
  comparedModel,
  createChangingTable,
  tenant,
  Writers,
  type WriterStep,
  writerSteps,
  runSql,
} from '../../support/changing-table.ts';
import { encodingOf, openedBy, type OpenedDestination } from '../../support/interval-bench.ts';
import { atNight, firstByDay, isNightly } from '../../support/nightly.ts';
import { startOwnPostgres } from '../../support/postgres-server.ts';
import {
  type AttemptFate,
  readManifests,
  SequenceReader,
  SequenceSide,
} from '../../support/sequence-side.ts';
import { inTest, useStage } from '../../support/use-stage.ts';
import type { Model } from '../../../src/foundation/domain/model.ts';
import { KeyReplay } from '../../../src/rows/pipeline/delivered-keys.ts';
import { plainColumns } from '../../support/plain-model.ts';

const fates = [
  'recorded',
  'recorded',
  'dies before manifest',
  'dies after manifest',
  'dies reading',
] as const;

type Step = WriterStep | { readonly attempt: AttemptFate; readonly givesUp: boolean } | 'read';

const anyWrite = fc.record({
  session: fc.nat(3),
  does: fc.constantFrom(...writerSteps, 'begin', 'insert', 'update', 'commit'),
  id: fc.nat(11),
  value: fc.nat(999),
});
const anyAttempt = fc.record({ attempt: fc.constantFrom(...fates), givesUp: fc.boolean() });
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: anyWrite },
  { weight: 3, arbitrary: anyAttempt },
  { weight: 1, arbitrary: fc.constant('read' as const) },
);

const settings = { max_prepared_transactions: '40' };
const server = useStage(() => startOwnPostgres(settings));
beforeAll(() => createChangingTable(server.adminUrl));

const replayed =
  'replayed by number equal the source at each snapshot, whatever is written and whichever worker dies';
const compared =
  'whose keys are compared have each row at once, and nothing else after a comparison';

it.each(
  firstByDay<readonly [string, 'usual' | 'embedded', Model]>(1, [
    [replayed, 'usual', changingModel],
    [compared, 'usual', comparedModel(3)],
    [replayed, 'embedded', changingModel],
    [compared, 'embedded', comparedModel(3)],
  ]),
)(
  'elements of a changing table %s, on the %s server',
  async (_, kind, model) => {
    const embedded = kind === 'embedded' ? await inTest(startOwnPostgres(settings, null)) : null;
    if (embedded) await createChangingTable(embedded.adminUrl);
    const { adminUrl } = embedded ?? server;
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { minLength: 30, maxLength: 120 }), (steps) =>
        replay(adminUrl, steps, model),
      ),
      { numRuns: isNightly ? 8 : 1, endOnFailure: true },
    );
  },
  600_000,
);

const sourceAt = (connectionString: string, model: Model) =>
  createPostgresSource({
    connectionString,
    plan: planModels([model]),
    keepConnectionMs: 10_000,
  });

async function replay(url: string, steps: readonly Step[], model: Model): Promise<void> {
  await runSql(url, 'truncate things, gone');
  const opened = await openedBy.File();
  const writers = await Writers.open(url, 4);
  const side = new SequenceSide(sourceAt(url, model), opened.destination);
  const [early, late] = [new SequenceReader(), new SequenceReader()];
  const check = async (reader: SequenceReader) => {
    await reader.catchUp(opened.destination);
    if (reader.applied < 0) return;
    const truth = side.truth.get(reader.applied) ?? new Map();
    const mayLinger = ([key]: [string, string]) => !reader.isComplete && !truth.has(key);
    expect(sorted(reader.rows).filter((row) => !mayLinger(row))).toEqual(sorted(truth));
  };
  try {
    for (const step of steps) {
      if (step === 'read') await check(early);
      else if ('does' in step) await writers.do(step);
      else {
        await side.attempt(step.attempt);
        if (step.givesUp) side.giveUp();
      }
    }
    await side.attempt('recorded');
    await check(early);
    await check(late);
    expect(late.applied).toBe(side.last?.number);
  } finally {
    await writers.close();
    await opened.close();
  }
}

const sorted = (rows: ReadonlyMap<string, string>) => [...rows].toSorted();

describe('keys that are compared', () => {
  let opened: OpenedDestination;
  let reader: SequenceReader;

  beforeEach(async () => {
    opened = await openedBy.File();
    reader = new SequenceReader();
    await sql('truncate things, gone', insert(1, 'one'), insert(2, 'two'), insert(3, 'three'));
  });
  afterEach(() => opened.close());

  const sql = (...statements: readonly string[]) => runSql(server.adminUrl, ...statements);

  const insert = (id: number, note: string) =>
    `insert into things values (${id}, ${tenant}, ${id % 2}, '${note}', 1.50)`;

  const sideOf = (model = comparedModel(1), changes: object = {}) =>
    new SequenceSide(sourceAt(server.adminUrl, model), opened.destination, changes);

  /** Makes an element. @returns what it is, and the ids that a reader has after it */
  async function next(side: SequenceSide) {
    await side.attempt('recorded');
    await reader.catchUp(opened.destination);
    const { base, deletes } = side.last ?? {};
    return { base, deletes, ids: [...reader.rows.keys()].toSorted() };
  }

  const stampOn = (table: string) => [
    `create trigger stamp before insert or update on ${table} for each row execute function sluice_stamp_things()`,
    `alter table ${table} enable always trigger stamp`,
  ];

  const remove = (id: number) => `delete from things where id = ${id}`;

  it('each n-th element, and each base, has all deletes, and its manifest says so', async () => {
    const side = sideOf(comparedModel(3));
    await next(side);
    await sql(remove(1));
    expect(await next(side)).toMatchObject({ base: null, deletes: 0, ids: ['1', '2', '3'] });
    await next(side);
    // A row that came and went meanwhile was delivered once.
    await sql(insert(4, 'four'), remove(2));
    expect(await next(side)).toEqual({ base: null, deletes: 2, ids: ['3', '4'] });
    await sql(remove(4), insert(1, 'again'));
    expect(await next(side)).toMatchObject({ deletes: 0, ids: ['1', '3', '4'] });
    await next(side);
    expect(await next(side)).toEqual({ base: null, deletes: 1, ids: ['1', '3'] });
    const manifests = await readManifests(opened.destination);
    const said = manifests.map(({ element }) => [element?.number, element?.complete] as const);
    expect(said.toSorted(([a = 0], [b = 0]) => a - b)).toEqual(
      [0, 1, 2, 3, 4, 5, 6].map((number) => [number, number % 3 === 0]),
    );
  });

  it('a row that the query no longer wants, or that is of another project, is gone', async () => {
    const request = {
      ...{ model: 'things', tenantKey: tenant, whole: true, includeEvents: null },
      ...{
        excludeEvents: null,
        dslQuery: `SELECT id, kind, note FROM things WHERE note <> 'hide'`,
      },
      interval: { start: 0, end: 3_600_000 },
    };
    const side = sideOf(comparedModel(1), { request });
    await side.attempt('recorded');
    await sql(
      `update things set note = 'hide' where id = 1`,
      `update things set team = 8 where id = 2`,
    );
    expect(await next(side)).toEqual({ base: null, deletes: 2, ids: ['3'] });
    // Nothing of them was delivered since.
    await sql(`update things set price = 9 where id = 1`);
    expect(await next(side)).toEqual({ base: null, deletes: 0, ids: ['3'] });
  });

  it('files that are missing or not as they were delivered make a base, which says why', async () => {
    const side = sideOf();
    await next(side);
    await sql(insert(4, 'four'));
    await next(side);
    await opened.destination.deleteFiles(side.files.slice(-1));
    await sql(remove(1));
    expect(await next(side)).toEqual({ base: 'unread', deletes: 0, ids: ['2', '3', '4'] });
    expect(side.logged.join()).toContain('is missing');
    await sql(remove(2));
    expect(await next(side)).toEqual({ base: null, deletes: 1, ids: ['3', '4'] });
  });

  it('a source that is another database makes a base', async () => {
    const side = sideOf();
    await next(side);
    await sql('create database other');
    const other = new URL(server.adminUrl);
    other.pathname = '/other';
    await createChangingTable(other.href);
    await runSql(other.href, insert(5, 'five'));
    side.readFrom(sourceAt(other.href, comparedModel(1)));
    expect(await next(side)).toEqual({ base: 'server', deletes: 0, ids: ['5'] });
  });

  atNight.each(['dies before manifest', 'dies after manifest'] as const)(
    'an attempt that %s leaves no row at a reader that is gone',
    async (fate) => {
      const side = sideOf();
      await next(side);
      await sql(insert(4, 'four'));
      await side.attempt(fate);
      await reader.catchUp(opened.destination);
      expect(reader.rows.has('4')).toBe(fate === 'dies after manifest');
      side.giveUp();
      await sql(remove(4));
      expect(await next(side)).toMatchObject({ base: 'unrecorded', ids: ['1', '2', '3'] });
    },
  );

  it('what was erased is not announced again, also if it is erased while keys are read', async () => {
    const side = sideOf();
    await next(side);
    await sql(remove(1), remove(2));
    await side.erase('id', '1');
    side.afterReading = () => side.erase('id', '2');
    await expect(side.attempt('recorded')).rejects.toMatchObject({ code: 'destination.conflict' });
    side.afterReading = async () => {};
    await side.attempt('recorded');
    expect(side.last).toMatchObject({ base: null, deletes: 0 });
  });

  atNight(
    'a row that the format cannot hold is no delete, and is deleted if it was delivered before',
    async () => {
      const side = sideOf(comparedModel(1), { encoding: encodingOf({ file_format: 'Parquet' }) });
      await sql(`update things set price = 'NaN' where id = 3`);
      await side.attempt('recorded');
      const deletesAfter = async (...statements: readonly string[]) => {
        await sql(...statements);
        await side.attempt('recorded');
        expect(side.last?.base).toBe(null);
        return side.last?.deletes;
      };
      expect(await deletesAfter(`update things set price = 'NaN' where id = 1`)).toBe(0);
      // Readers never had row 3.
      expect([await deletesAfter(remove(1), remove(3)), await deletesAfter()]).toEqual([1, 0]);
    },
  );

  it('keys of each type are deleted as they were delivered', async () => {
    const types = {
      ...{ a: 'text', b: 'uuid', c: 'numeric(10,2)', d: 'timestamptz', e: 'date' },
      ...{ f: 'character(5)', g: 'boolean', h: 'smallint', i: 'timestamp', j: 'bigint' },
      id: 'integer',
    };
    const names = Object.keys(types);
    const keyColumns = names.filter((name) => name !== 'id');
    const values = [
      `('A''x\\', '8B6F2B1E-0000-4000-8000-00000000000A', 1.5, '2024-03-01 00:00:00.5+02', '2024-02-29', 'ab', true, -1, '1999-01-01', 9007199254740993, 1)`,
      `('a''x\\', '8B6F2B1E-0000-4000-8000-00000000000A', 1.5, '2024-03-01 00:00:00.5+02', '2024-02-29', 'ab', true, -1, '1999-01-01', 9007199254740993, 2)`,
      `('', '8B6F2B1E-0000-4000-8000-00000000000A', 0, '0044-03-15 12:00:00+00 BC', '12024-02-29', '', false, 1, '12999-01-01 00:00:00.000001', -1, 3)`,
      `(E'null\\t\\n,"\\u00e9 \\U0001F600', '8B6F2B1E-0000-4000-8000-00000000000A', -1.10, '2024-03-01', '2024-02-29', ' b', true, -1, '1999-01-01', 0, 4)`,
    ];
    await sql(
      `create table odd (${Object.entries(types).map((one) => one.join(' '))}, team int, version xid8, primary key (${keyColumns}))`,
      ...stampOn('odd'),
      `insert into odd (${names}, team) select *, ${tenant} from (values ${values}) v`.replace(
        'select *',
        `select ${names.map((_, at) => `column${at + 1}::${Object.values(types)[at]}`)}`,
      ),
    );
    const relation = { schema: 'public', name: 'odd' };
    const odd: Model = {
      ...{ ...comparedModel(1), relation, keyColumns, columns: plainColumns(types) },
    };
    for (const config of firstByDay<Readonly<Record<string, unknown>>>(1, [
      { file_format: 'JSONLines' },
      { file_format: 'Parquet' },
      { file_format: 'CSV', csv_header: false },
    ])) {
      await opened.close();
      opened = await openedBy.File();
      const side = sideOf(odd, { encoding: encodingOf(config) });
      await side.attempt('recorded');
      await side.attempt('recorded');
      expect(side.last).toMatchObject({ base: null, deletes: 0 });
      await sql('create table if not exists former as select * from odd', 'delete from odd');
      await side.attempt('recorded');
      expect(side.last).toMatchObject({ base: null, deletes: 4 });
      await side.attempt('recorded');
      // Each was deleted under the very key that it was delivered with.
      expect(side.last).toMatchObject({ base: null, deletes: 0 });
      await sql('insert into odd select * from former');
    }
  }, 60_000);

  it('a key whose text can change alone is refused, with the remedy', async () => {
    await sql(
      `create type mood as enum ('good', 'bad')`,
      'create table moods (id mood primary key, team int, version xid8)',
      ...stampOn('moods'),
    );
    const columns = plainColumns({ id: 'public.mood' });
    const relation = { schema: 'public', name: 'moods' };
    const refused = sideOf({ ...comparedModel(1), relation, columns }).attempt('recorded');
    await expect(refused).rejects.toMatchObject({
      code: 'source.model_invalid',
      detail: expect.stringContaining('Find deletes by tombstones'),
    });
  });

  it('keys that go to the disk are replayed in their order', async () => {
    const replay = new KeyReplay({ memoryBytes: 4_096, blockBytes: 256 });
    const keyOf = (index: number) => `key \0 ${index} é`;
    for (let index = 0; index < 2_000; index += 1) await replay.put(keyOf(index));
    for (let index = 0; index < 2_000; index += 2) await replay.take(keyOf(index));
    for (let index = 0; index < 2_000; index += 4) await replay.put(keyOf(index));
    for (let index = 1; index < 2_000; index += 1) await replay.take(keyOf(index));
    const remaining: string[] = [];
    for await (const key of replay.remaining()) remaining.push(key);
    await replay.close();
    expect(remaining).toEqual([keyOf(0)]);
  });
});
