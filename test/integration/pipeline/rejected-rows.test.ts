import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { describeError } from '../../../src/foundation/domain/describe-error.ts';
import { toSluiceError } from '../../../src/foundation/domain/errors.ts';
import { readAll } from '../../conformance/destination-suite.ts';
import {
  attempt,
  encodingOf,
  firstJob,
  openedBy,
  openIntervalBench,
  readableKeys,
  readManifest,
} from '../../support/interval-bench.ts';
import type { Model, ModelChanges } from '../../../src/foundation/domain/model.ts';
import { triggerStatements } from '../../../src/rows/changes/trigger-sql.ts';
import { checkModel, createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import { findTransform } from '../../../src/rows/transforms/index.ts';
import { compileStep } from '../../../src/rows/transforms/step.ts';
import { changingModel, tenant, runSql } from '../../support/changing-table.ts';
import { startOwnPostgres } from '../../support/postgres-server.ts';
import { SequenceReader, SequenceSide } from '../../support/sequence-side.ts';
import { useEach, useStage } from '../../support/use-stage.ts';
import { plainColumn } from '../../support/plain-model.ts';

const opened = useEach(openedBy.File);

const bench = useStage(() => openIntervalBench(40));
beforeAll(async () => {
  await bench.database.sql`
    update events set created_at = case event when 'event 1' then 'infinity'::timestamptz else '-infinity' end
      where event in ('event 1', 'event 2')`;
  await bench.database.sql`
    update events set properties = '{"n": "NaN"}' where properties ->> 'n' = '3'`;
});

const parquet = encodingOf({ file_format: 'Parquet' });

/** Exports the hour, and keeps what the run logs. */
function run(changes: Parameters<typeof firstJob>[0]) {
  const logged: string[] = [];
  const log = (level: string, message: string) => void logged.push(`${level} ${message}`);
  return { logged, ...attempt(bench, opened.destination, firstJob(changes), { log }) };
}

it('logs a warning for each reason with its rows and the key of the first', async () => {
  const { exported, logged } = run({ encoding: parquet });
  const { result } = await exported;
  expect([result.rows, result.rejectedRows]).toEqual([14, 26]);
  const warnings = logged.filter((line) => line.startsWith('WARNING'));
  expect(warnings).toHaveLength(2);
  for (const [index, word] of ['infinity', '-infinity'].entries()) {
    expect(warnings[index]).toMatch(
      new RegExp(
        `^WARNING 13 rows were rejected. Column created_at: ${word} has no Parquet timestamp. The first: {"uuid":"[-0-9a-f]{36}"}`,
      ),
    );
  }
});

/** Expects that the customer must fix this, and that nothing was committed. */
async function refused({ exported, asked }: ReturnType<typeof run>) {
  const error = toSluiceError(await exported.catch((thrown: unknown) => thrown));
  expect(error.spec).toMatchObject({ fault: 'customer', retryable: false });
  expect(asked).not.toContain('commit');
  expect(await readableKeys(opened.destination)).toEqual([]);
  return describeError(error);
}

it('fails before it commits anything if the export allows no rejected row', async () => {
  expect(await refused(run({ encoding: parquet, onRejected: 'fail' }))).toMatch(
    /^run\.rows_rejected: .*13 rows were rejected. Column created_at: .*"uuid":".*26 rows in all/,
  );
});

it('reads no row if a column that is to be DECIMAL is not one of numeric', async () => {
  const decimal_columns = ['event decimal(9,2)', 'total decimal(9,2)'];
  const config = { file_format: 'Parquet', decimal_columns };
  expect(await refused(run({ encoding: encodingOf(config) }))).toMatch(
    /^destination\.decimal_mismatch: .*event is text, not numeric; the rows have no column total. Columns of type numeric: none/,
  );
});

it('completes an export that allows no rejected row if there is none', async () => {
  const { request } = firstJob();
  const { exported } = run({
    encoding: parquet,
    onRejected: 'fail',
    request: { ...request, includeEvents: ['event 0'] },
  });
  expect((await exported).result.rows).toBe(14);
});

it.each([
  ['null', [null, null]],
  ['limit', ['9999-12-31T23:59:59.999999Z', '0001-01-01T00:00:00.000000Z']],
  ['reject', ['infinity', '-infinity']],
] as const)('writes infinite times as the export says: %s', async (infinity, [high, low]) => {
  const { exported, logged } = run({ encoding: encodingOf({ infinity }) });
  const { result } = await exported;
  expect(result.recipe).toEqual(
    expect.objectContaining(infinity === 'reject' ? { format: 'JSONLines' } : { infinity }),
  );
  const [file] = (await readManifest(opened.destination)).files;
  const lines = (await readAll(opened.destination, file?.key ?? ''))?.toString().trim().split('\n');
  const found = new Map(
    (lines ?? []).map((line) => JSON.parse(line)).map((row) => [row.event, row.created_at]),
  );
  expect([found.get('event 1'), found.get('event 2')]).toEqual([high, low]);
  expect(found.get('event 0')).toMatch(/^2024-03-01T00:/);
  expect(logged.filter((line) => line.startsWith('WARNING'))).toEqual([]);
});

it.each(['null', 'limit'])(
  'keeps all rows of a Parquet file if infinity becomes %s',
  async (infinity) => {
    const encoding = encodingOf({ file_format: 'Parquet', infinity });
    const { exported } = run({ encoding });
    const { result } = await exported;
    expect([result.rows, result.rejectedRows]).toEqual([40, 0]);
  },
);

it.each(['JSONLines', 'CSV', 'Parquet'] as const)(
  'writes no row of too deep JSON to %s: the run fails with its key, column and remedy',
  async (file_format) => {
    const deepen = (levels: number) =>
      bench.database.pool.query(
        `update events set properties = (repeat('[', $1) || repeat(']', $1))::jsonb
          where uuid = (select min(uuid::text)::uuid from events)`,
        [levels],
      );
    const encoding = encodingOf({ file_format });
    onTestFinished(() => deepen(1).then(() => {}));
    await deepen(1_001);
    expect(await refused(run({ encoding }))).toMatch(
      /^source\.json_too_deep: .*column properties of the row with the key \{"uuid":"[-0-9a-f]{36}"\} has more than 1,000 levels.* drop the property/,
    );
    // Not selected, or as deep as is allowed.
    const { request } = firstJob();
    const without = { ...request, dslQuery: 'SELECT uuid, event FROM events' };
    expect((await run({ encoding, request: without }).exported).result.rows).toBe(40);
    await deepen(1_000);
    const { result } = await run({ encoding, generation: 2 }).exported;
    expect(result.rows + result.rejectedRows).toBe(40);
  },
);

describe('odd tables', () => {
  const server = useStage(startOwnPostgres);

  const sql = (...statements: readonly string[]) => runSql(server.adminUrl, ...statements);

  const key = (nr: number) => `0000000${nr}-0000-4000-8000-000000000000`;
  const long = 'a_name_of_a_table_that_is_as_long_as_a_name_may_be_for_postgres';

  interface OddTable {
    readonly model: Model;
    readonly create: string;
    /** The values of a row after its project. */
    row(nr: number): string;
  }

  const changesTo = (relation: Model['relation'], versionColumn = 'version'): ModelChanges => ({
    ...{ versionColumn, setBy: 'database' },
    deletes: { kind: 'tombstones', days: null, relation },
  });
  const typed = (column: string) => plainColumn(...(column.split(' ') as [string, string]));
  const sourceOf = (model: Model) =>
    createPostgresSource({ connectionString: server.adminUrl, plan: planModels([model]) });

  const odd: Readonly<Record<string, OddTable>> = {
    'with mixed case, a quote and a uuid': {
      model: {
        ...changingModel,
        ...{ relation: { schema: 'Odd Shop', name: 'Or"ders' }, tenantColumn: 'Te"am' },
        keyColumns: ['Id'],
        changes: changesTo({ schema: 'Odd Shop', name: 'Gone "Orders"' }, 'Row Version'),
        columns: ['Id uuid', 'Wh"at text'].map(typed),
      },
      create: `create schema "Odd Shop"; create table "Odd Shop"."Or""ders" ("Te""am" int not null, "Id" uuid primary key, "Wh""at" text)`,
      row: (nr) => `'${key(nr)}', 'row ${nr}'`,
    },
    'with a composite key and partitions': {
      model: {
        ...changingModel,
        ...{ relation: { schema: 'public', name: 'parted' }, keyColumns: ['region', 'nr'] },
        changes: {
          ...{ versionColumn: 'version', setBy: 'database' },
          deletes: { kind: 'compare', every: 1 },
        },
        columns: ['region text', 'nr integer', 'note text'].map(typed),
      },
      create: `create table parted (team int not null, region text, nr int, note text, primary key (region, nr)) partition by list (region);
      create table parted_a partition of parted for values in ('a'); create table parted_b partition of parted for values in ('b')`,
      row: (nr) => `'${nr % 2 === 0 ? 'a' : 'b'}', ${nr}, 'row ${nr}'`,
    },
    'whose name is as long as can be': {
      model: {
        ...changingModel,
        relation: { schema: 'public', name: long },
        changes: changesTo({ schema: 'public', name: `${long.slice(0, -4)}gone` }),
        columns: ['id bigint', 'note text'].map(typed),
      },
      create: `create table ${long} (team int not null, id bigint primary key, note text)`,
      row: (nr) => `${nr}, 'row ${nr}'`,
    },
  };

  it.each(Object.entries(odd))(
    'a table %s gives its rows, their changes and deletes',
    async (_, table) => {
      const { model } = table;
      const quote = (text: string) => `"${text.replaceAll('"', '""')}"`;
      const relation = `${quote(model.relation.schema)}.${quote(model.relation.name)}`;
      const insert = (nr: number) => `insert into ${relation} values (${tenant}, ${table.row(nr)})`;
      // These rows are older than the trigger, so their version is null.
      await sql(table.create, insert(1), insert(2), insert(3));
      const statements = triggerStatements(model).map((one) => one.sql);
      await sql(...statements, ...statements);
      const { deletes } = model.changes ?? {};
      const tables = [model, ...(deletes?.kind === 'tombstones' ? [deletes] : [])];
      const names = tables.map((one) => `'${one.relation.name}'`).join();
      expect(
        await sql(
          `select from pg_indexes where indexname ~ '^sluice_version' and tablename in (${names})`,
        ),
      ).toHaveLength(tables.length);
      const side = new SequenceSide(sourceOf(model), opened.destination);
      const reader = new SequenceReader(model.keyColumns);
      const columns = model.columns.map((one) => quote(one.name)).join();
      const expectPresent = async () => {
        await side.attempt('recorded');
        await reader.catchUp(opened.destination);
        const rows = await sql(`select ${columns} from ${relation}`);
        const read = [...reader.rows.values()].map((text) => JSON.parse(text));
        expect(read).toHaveLength(rows.length);
        expect(read).toEqual(expect.arrayContaining(rows.map((row) => numbersOf(row))));
      };
      await expectPresent();
      const { findings } = await checkModel(server.adminUrl, model, [tenant]);
      expect(findings.filter(({ severity }) => severity === 'error')).toEqual([]);
      const [last] = model.columns.slice(-1);
      const isKey = model.keyColumns.map(
        (one, at) => `${quote(one)}::text = ${keyText(table, at)}`,
      );
      await sql(
        insert(4),
        `update ${relation} set ${quote(last?.name ?? '')} = 'new' where ${isKey.join(' and ')}`,
      );
      await expectPresent();
      await sql(`delete from ${relation} where ${isKey.join(' and ')}`);
      await expectPresent();
      expect(side.last).toMatchObject({ number: 2, base: null, deletes: 1 });
    },
  );

  /** A key column of row 2, as the text of SQL. */
  const keyText = ({ row }: OddTable, at: number) => `(${row(2).split(', ')[at]})::text`;
  const numbersOf = (row: object) =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => [name, name === 'id' ? Number(value) : value]),
    );

  it('a change that a step drops is dropped and said, and its row and its delete are not', async () => {
    const model = { ...changingModel, relation: { schema: 'public', name: 'stepped' } };
    await sql(
      'create table stepped (team int not null, id bigint primary key, kind int, note text, price numeric(10,2))',
      ...triggerStatements(model).map((one) => one.sql),
      `insert into stepped values (${tenant}, 1, 0, 'one', 1), (${tenant}, 2, 0, 'two', 1)`,
    );
    const transform = findTransform(6);
    if (!transform) throw new Error('there is no such step');
    const config = { condition: '{"column": "note", "is": "hide"}', mode: 'drop' };
    const steps = [compileStep({ id: 1, name: 'drop', config }, transform)];
    const chain = { steps, recipe: [{ config: 1, version: 1, digest: 'digest' }] };
    const side = new SequenceSide(sourceOf(model), opened.destination, { chain });
    const reader = new SequenceReader();
    const notes = async () => {
      await side.attempt('recorded');
      await reader.catchUp(opened.destination);
      return [...reader.rows.values()].map((row) => JSON.parse(row).note);
    };
    expect(await notes()).toEqual(['one', 'two']);
    await sql(`update stepped set note = 'hide' where id = 1`);
    expect(await notes()).toEqual(['one', 'two']);
    expect(side.logged.at(-1)).toContain('Changes that the transformations dropped: 1.');
    await sql('delete from stepped where id = 1');
    expect(await notes()).toEqual(['two']);
  });
});
