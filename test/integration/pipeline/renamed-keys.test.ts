import { useStage } from '../../support/use-stage.ts';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import { createEmptyDatabase } from '../../support/database.ts';
import { attempt, encodingOf, firstJob, jobAfter, openedBy } from '../../support/interval-bench.ts';
import { bucketCount, KeyDifference } from '../../../src/rows/pipeline/key-tally.ts';
import { readDeliveredKeys } from '../../../src/rows/pipeline/read-back.ts';
import { SpoolFolder } from '../../../src/rows/pipeline/key-spool.ts';
import type { Source } from '../../../src/rows/sources/source.ts';
import { readSourceKeys } from '../../../src/service/verify/source-keys.ts';
import { firstByDay, isNightly } from '../../support/nightly.ts';
import { oddValues } from '../../support/odd-values.ts';
import { plainColumn, plainModel } from '../../support/plain-model.ts';

/** The key of a row can print otherwise although the row was not written: a name in it was changed. */

const database = useStage(createEmptyDatabase);

interface Case {
  readonly types: string;
  /** The type of the key column `kind`, and values of it. */
  readonly declared: string;
  readonly values: readonly [string, string];
  /** The key of the late row. */
  readonly late: string;
  readonly rename: string;
  readonly keyColumns: readonly string[];
}

const labels = "create type mood as enum ('new', 'old', 'third')";
const rename = `alter type mood rename value 'new' to 'open'`;
const plain: Case = {
  types: labels,
  declared: 'mood',
  values: ['new', 'old'],
  late: 'third',
  rename,
  keyColumns: ['id', 'kind'],
};
const cases: Readonly<Record<string, Case>> = {
  'a label': plain,
  'a label, if another one gets its name': {
    ...plain,
    rename: `${rename}; alter type mood add value 'new'`,
  },
  'two labels that swap their names': {
    ...plain,
    rename: `${rename}; alter type mood rename value 'old' to 'new'; alter type mood rename value 'open' to 'old'`,
  },
  'the label of a key without other columns': { ...plain, keyColumns: ['kind'] },
  'a label in a list': { ...plain, declared: 'mood[]', values: ['{new}', '{old,new}'], late: '{}' },
  'a label in a domain': {
    ...plain,
    types: `${labels}; create domain feeling as mood`,
    declared: 'feeling',
  },
  'an attribute': {
    ...plain,
    types: 'create type pair as (a int, b text)',
    declared: 'pair',
    values: ['(1,x)', '(2,y)'],
    late: '(3,z)',
    rename: 'alter type pair rename attribute a to c',
  },
};

const formats = firstByDay(1, ['JSONLines', 'CSV', 'Parquet']);
/** By day of the most different types. */
const tested = Object.entries(cases).filter(
  ([name]) => isNightly || ['a label', 'a label in a list', 'an attribute'].includes(name),
);

async function openCase({ types, declared, values, keyColumns }: Case, format: string) {
  await database.pool.query(`drop schema public cascade; create schema public; ${types};
    create table labelled (id int, kind ${declared}, team int, at timestamptz);
    insert into labelled values (1, '${values[0]}', 1, '2024-03-01T00:30:00Z'), (2, '${values[1]}', 1, '2024-03-01T00:31:00Z')`);
  const model = plainModel('labelled', { id: 'integer', kind: declared }, { keyColumns });
  const source = createPostgresSource({
    connectionString: database.url,
    plan: planModels([model]),
  });
  const { destination, close } = await openedBy.File();
  const request = { ...firstJob().request, model: model.name };
  const job = firstJob({ request, encoding: encodingOf({ file_format: format }) });
  const first = await attempt({ source }, destination, job).exported;
  const second = jobAfter(job, first, { purpose: 'supplement' });
  return { supplement: () => attempt({ source }, destination, second).exported, close };
}

const run = (sql: string) => database.pool.query(sql);

it.each(
  tested.flatMap(([name, given]) =>
    (given === plain ? formats : ['Parquet']).map((format) => ({ name, format, given })),
  ),
)(
  'a late row waits for a person after $name was renamed, in $format',
  async ({ format, given }) => {
    const { supplement, close } = await openCase(given, format);
    onTestFinished(() => close());
    await run(given.rename);
    await run(`insert into labelled values (3, '${given.late}', 1, '2024-03-01T00:32:00Z')`);
    await expect(supplement()).rejects.toMatchObject({
      code: 'run.late_rows_wait',
      message: expect.stringContaining('differ from delivered rows only in kind'),
    });
  },
);

it('rows that left the source and a late one, with names in their keys, are no renamed rows', async () => {
  const { supplement, close } = await openCase(plain, 'JSONLines');
  onTestFinished(() => close());
  await run(`delete from labelled where id = 1`);
  await run(`insert into labelled values (3, 'new', 1, '2024-03-01T00:32:00Z')`);
  expect((await supplement()).result).toMatchObject({ rows: 1, keyCount: 2 });
});

describe('keys of each type', () => {
  /**
   * Keys are compared as texts: from the source, from rows before they are written, and from files. Whatever the type, a
   * delivered row has one key in all three: else a look-back adds it again, a re-run is refused, or `verify` is wrong.
   */

  interface KeyType {
    readonly column: string;
    readonly declared: string;
    readonly values: readonly string[];
  }

  const more: readonly KeyType[] = [
    { column: 'padded_domain', declared: 'padded', values: ['a', 'b  '] },
    { column: 'letter', declared: '"char"', values: ['a', ''] },
    {
      column: 'document',
      declared: 'jsonb',
      values: ['"text"', 'null', '"null"', '1', '"1"', '[]'],
    },
    { column: 'guarded', declared: 'text', values: [`'=1`, `''=x`, '@a', '-5', `'`, '\t', ' x '] },
    { column: 'money', declared: 'money', values: ['1234.50', '-1'] },
    { column: 'zoned', declared: 'timetz', values: ['12:00:00+02', '00:00:00.10-05:30'] },
    { column: 'bits', declared: 'bit(5)', values: ['10101'] },
    { column: 'mood', declared: 'mood', values: ['good', 'so "so"'] },
    { column: 'pair', declared: 'pair', values: ['(1,a)', '(,"x ""y"" ")'] },
    { column: 'padded_list', declared: 'char(3)[]', values: ['{a,NULL}', '{}'] },
    { column: 'prices', declared: 'numeric(10,2)[]', values: ['{1,2.50}'] },
    {
      column: 'moments',
      declared: 'timestamptz[]',
      values: ['{2024-03-01 00:00:00.50Z,infinity}'],
    },
    { column: 'blobs', declared: 'bytea[]', values: ['{"\\\\x00ff",""}'] },
    { column: 'matrix', declared: 'int[]', values: ['{{1,2},{3,4}}', '[0:1]={5,6}'] },
  ];

  /** A `json` has no order, so it is no key. */
  const types = [...oddValues.filter(({ declared }) => declared !== 'json'), ...more];
  const rows = Math.max(...types.map(({ values }) => values.length));

  const formats = firstByDay<readonly [string, Readonly<Record<string, unknown>>]>(2, [
    ['guarded CSV', { file_format: 'CSV', csv_formula_guard: true }],
    ['Parquet', { file_format: 'Parquet' }],
    ['JSONLines', { file_format: 'JSONLines' }],
    ['CSV', { file_format: 'CSV' }],
  ]);

  const keyColumns = types.map(({ column }) => column);
  const columns = types.map(({ column, declared }) => {
    return { ...plainColumn(column, declared), json: false };
  });
  const model = plainModel('keyed', {}, { keyColumns, columns });

  const signal = new AbortController().signal;

  describe('keys of every type', () => {
    const database = useStage(createEmptyDatabase);
    let source: Source;
    beforeAll(async () => {
      const { pool } = database;
      const columns = types.map(({ column, declared }) => `"${column}" ${declared}`);
      await pool.query(`create domain padded as char(6); create type mood as enum ('good', 'so "so"');
      create type pair as (a int, b text); create table keyed (team int, at timestamptz, ${columns.join(', ')})`);
      const casts = types.map(({ declared }, index) => `$${index + 2}::text::${declared}`);
      for (let row = 0; row < rows; row += 1) {
        const values = types.map(({ values: all }) => all[row % all.length]);
        await pool.query(
          `insert into keyed select 1, timestamptz '2024-03-01Z' + $1 * interval '1 s', ${casts.join(', ')}`,
          [row, ...values],
        );
      }
      source = createPostgresSource({ connectionString: database.url, plan: planModels([model]) });
    });

    it.each(formats)('are the same in the source and in %s', async (_, config) => {
      const { destination, close } = await openedBy.File();
      const folder = new SpoolFolder();
      onTestFinished(async () => {
        await folder.remove();
        await close();
      });
      const request = { ...firstJob().request, model: model.name };
      const job = firstJob({ request, encoding: encodingOf(config), dropsMissing: false });
      const bench = { source };
      const first = await attempt(bench, destination, job).exported;
      const difference = new KeyDifference([...Array(bucketCount).keys()]);
      const found = await readSourceKeys(source, request, signal, (key) => difference.add(key, 1));
      const reading = { destination, readRows: job.readRows, folder, signal };
      await readDeliveredKeys(reading, first.result, found.columns, (key) => {
        difference.add(key, -1);
        return undefined;
      });
      expect(difference.read()).toEqual({ lost: [], doubled: [], shared: [], foreign: [] });

      const second = jobAfter(job, first, { purpose: 'supplement' });
      const added = await attempt(bench, destination, second).exported;
      expect(added.result).toMatchObject({ rows: 0, madeFiles: 0 });

      const again = jobAfter(second, added, {
        purpose: 'whole',
        encoding: encodingOf({ ...config, compression: 'zstd' }),
      });
      // Without the digest of what is delivered, the keys decide.
      const current = again.current && { ...again.current, deliveredDigest: null };
      const remade = await attempt(bench, destination, { ...again, current }).exported;
      expect(remade.result.rows + remade.result.rejectedRows).toBe(rows);
    });
  });
});
