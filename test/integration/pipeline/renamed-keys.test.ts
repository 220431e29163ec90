import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Model } from '../../../src/foundation/domain/model.ts';
import { createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import { createEmptyDatabase, type TestDatabase } from '../../support/database.ts';
import { attempt, encodingOf, firstJob, jobAfter, openedBy } from '../../support/interval-bench.ts';

/** The key of a row can print otherwise although the row was not written: a name in it was changed. */

let database: TestDatabase;
beforeAll(async () => {
  database = await createEmptyDatabase();
});
afterAll(() => database?.drop());

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

const formats = ['JSONLines', 'CSV', 'Parquet'];

async function openCase({ types, declared, values, keyColumns }: Case, format: string) {
  await database.pool.query(`drop schema public cascade; create schema public; ${types};
    create table labelled (id int, kind ${declared}, team int, at timestamptz);
    insert into labelled values (1, '${values[0]}', 1, '2024-03-01T00:30:00Z'), (2, '${values[1]}', 1, '2024-03-01T00:31:00Z')`);
  const column = (name: string, sourceType: string) => {
    return { name, sourceType, expression: null, json: false };
  };
  const model: Model = {
    name: 'labelled',
    relation: { schema: 'public', name: 'labelled' },
    tenantColumn: 'team',
    intervalColumn: 'at',
    keyColumns,
    eventColumn: null,
    columns: [column('id', 'integer'), column('kind', declared)],
  };
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
  Object.entries(cases).flatMap(([name, given]) =>
    (given === plain ? formats : ['Parquet']).map((format) => ({ name, format, given })),
  ),
)(
  'a late row waits for a person after $name was renamed, in $format',
  async ({ format, given }) => {
    const { supplement, close } = await openCase(given, format);
    try {
      await run(given.rename);
      await run(`insert into labelled values (3, '${given.late}', 1, '2024-03-01T00:32:00Z')`);
      await expect(supplement()).rejects.toMatchObject({
        code: 'run.late_rows_wait',
        message: expect.stringContaining('differ from delivered rows only in kind'),
      });
    } finally {
      await close();
    }
  },
);

it('rows that left the source and a late one, with names in their keys, are no renamed rows', async () => {
  const { supplement, close } = await openCase(plain, 'JSONLines');
  try {
    await run(`delete from labelled where id = 1`);
    await run(`insert into labelled values (3, 'new', 1, '2024-03-01T00:32:00Z')`);
    expect((await supplement()).result).toMatchObject({ rows: 1, keyCount: 2 });
  } finally {
    await close();
  }
});
