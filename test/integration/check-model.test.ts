import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { readConfig } from '../../src/foundation/config/config.ts';
import type { Model } from '../../src/foundation/domain/model.ts';
import { checkModels } from '../../src/clients/cli/check-models.ts';
import { checkModel } from '../../src/rows/sources/index.ts';
import { createEmptyDatabase } from '../support/database.ts';
import { useStage } from '../support/use-stage.ts';
import { folderOfTest } from '../support/own-folder.ts';
import { asRole } from '../support/template-database.ts';
import { atNight, firstByDay } from '../support/nightly.ts';
import { plainColumn, plainModel } from '../support/plain-model.ts';

/** As a role that reads, and sees all sessions. */
let readerUrl: string;

const good = plainModel('things', { id: 'bigint', at: 'timestamp with time zone' });

const database = useStage(createEmptyDatabase);
beforeAll(async () => {
  await database.sql`
    create domain amount as numeric(10, 2);
    create table things (
      id bigint primary key, team int not null, at timestamptz not null, local timestamp not null,
      free timestamptz, owner uuid not null, price amount, note text, kind int not null);
    create index things_team_at on things (team, at);
    create index things_team on things (kind);
    create index things_local on things (local);
    create view shown as select * from things;
    create table parent (like things including all);
    create table heir () inherits (parent);
    create index on heir (team, at);
    create table days (id bigint, team int not null, at timestamptz not null) partition by range (at)`;
  await database.adminSql`create role check_model_blind login password 'blind'`;
  await database.adminSql`
    create role check_model_reader login password 'reader' in role pg_read_all_data, pg_read_all_stats`;
  readerUrl = asRole(database.url, 'check_model_reader');
});

afterAll(() => database.adminSql`drop role check_model_blind, check_model_reader`);

const check = (changes: Partial<Model>, url = readerUrl) =>
  checkModel(url, { ...good, ...changes }, ['1']);

it('finds nothing wrong with a good model, and says how its rows are found', async () => {
  expect(await check({})).toEqual({ findings: [], plan: ['Index Scan using things_team_at'] });
  const columns = [
    plainColumn('price', 'public.amount'),
    plainColumn('exact', 'numeric', 'price * 2'),
  ];
  expect((await check({ columns: [...good.columns, ...columns] })).findings).toEqual([]);
});

const of = (name: string) => ({ relation: { schema: 'public', name } });

const errors = firstByDay<readonly [string, Partial<Model>, RegExp]>(2, [
  ['columns', { keyColumns: ['nr'], tenantColumn: 'tenant' }, /no column tenant, nr\. Correct/],
  [
    'type',
    { columns: [plainColumn('id', 'integer')] },
    /^column id is bigint in the database, but integer in the model things\. Correct type/,
  ],
  [
    'type by its name',
    { columns: [plainColumn('id', 'big int')] },
    /^column id is \w+ in the database, but big int in the model/,
  ],
  [
    'expression',
    { columns: [plainColumn('x', 'text', 'nothing + 1')] },
    /column "nothing" does not/,
  ],
  [
    'project',
    { tenantColumn: 'owner' },
    /owner is uuid, so the tenant_key of a project must be a UUID. These are not: "1"/,
  ],
  ['interval', { intervalColumn: 'note' }, /note is text, not timestamp with time zone\. Name/],
]);
it.each(errors)(
  'an error names the %s that is not there or not right',
  async (_, changes, expected) => {
    const { findings } = await check(changes);
    expect(findings.filter(({ severity }) => severity === 'error')[0]?.detail).toMatch(expected);
  },
);

it('a relation that is not there is said once', async () => {
  const detail = expect.stringMatching(/relation public\.thing does not/);
  expect((await check(of('thing'))).findings).toEqual([{ severity: 'error', detail }]);
});

const warnings = firstByDay<readonly [string, Partial<Model>, readonly RegExp[]]>(1, [
  [
    'a table without any index',
    { tenantColumn: 'kind', intervalColumn: 'free' },
    [
      /^free may be null, and rows with null are never exported/,
      /^Every run reads more than its interval\. Create an index on \(kind, free\)/,
    ],
  ],
  [
    'a time without a zone',
    { intervalColumn: 'local' },
    [/^local is timestamp without time zone, .*reads it as UTC/, /^Every run reads/],
  ],
  ['a key that may repeat', { keyColumns: ['note'] }, [/^No unique index covers note/]],
  ['a view', of('shown'), [/^No unique index covers id/]],
  [
    'a table with heirs',
    of('parent'),
    [/^No unique index covers id within a project\. Tables inherit from it/],
  ],
  [
    'no partition',
    of('days'),
    [
      /^No unique index covers id within a project\. The table is partitioned by RANGE \(\w+\), .*if key_columns lacks them/,
      /^No partition contains the last hour/,
    ],
  ],
]);
it.each(warnings)('a warning reports %s', async (_, changes, expected) => {
  const { findings } = await check(changes);
  expect(findings.map(({ severity }) => severity)).toEqual(expected.map(() => 'warning'));
  for (const [index, finding] of findings.entries()) {
    expect(finding.detail).toMatch(expected[index] ?? /never/);
  }
});

/** A model in a models file. */
const entryOf = (name: string, source: string) =>
  `  - { name: ${name}, relation: public.things, ${source} tenant_column: team, interval_column: at, key_columns: [id], columns: [{ name: id, type: bigint }] }\n`;

it('a wrong address of one model leaves the others checked', async () => {
  const file = join(folderOfTest(), 'models.yaml');
  const wrong = entryOf('wrong', 'source: TWO_HOSTS_URL,');
  const right = entryOf('right', 'source: ONE_HOST_URL,');
  await writeFile(file, `models:\n${wrong}${right}`);
  process.env.TWO_HOSTS_URL = 'postgres://u:s3cret@one,two/db';
  process.env.ONE_HOST_URL = readerUrl;
  onTestFinished(async () => {
    delete process.env.TWO_HOSTS_URL;
    delete process.env.ONE_HOST_URL;
  });
  const config = readConfig({ MODELS_FILE: file });
  const open = async () => readerUrl;
  const several = 'SOURCE_DATABASE_URL names several hosts';
  const checked = await checkModels(config, open, ['1'], async () => false, several);
  const found = Object.fromEntries(
    checked.map(({ model, findings }) => [model, findings.map(({ detail }) => detail)]),
  );
  expect(found.right).toEqual([]);
  expect(found.wrong).toEqual([expect.stringMatching(/TWO_HOSTS_URL.* names several hosts/)]);
  expect(found.events).toEqual([several]);
  expect(JSON.stringify(checked)).not.toContain('s3cret');
});

it('an error reports a role that may not read, and a database that does not answer', async () => {
  const url = asRole(database.url, 'check_model_blind', 'blind');
  const blind = await check({}, url);
  expect(blind.findings).toContainEqual({
    severity: 'error',
    detail: expect.stringMatching(
      /^The role may not read team, at, id\. GRANT SELECT ON public\.things TO check_model_blind\.$/,
    ),
  });
  const closed = new URL(url);
  closed.port = '1';
  expect((await check({}, closed.href)).findings).toEqual([
    { severity: 'error', detail: expect.stringMatching(/^source\.unavailable/) },
  ]);
});

atNight('the built-in model without its table is no model, unless it is exported', async () => {
  const path = join(folderOfTest(), 'models.yaml');
  await writeFile(path, `models:\n${entryOf('things', '')}`);
  const open = async () => readerUrl;
  const check = (env: Readonly<Record<string, string>>, isExported = false) =>
    checkModels(readConfig(env), open, ['1'], async () => isExported);
  const severities = (checked: Awaited<ReturnType<typeof check>>) =>
    checked.map(({ model, findings }) => [model, findings[0]?.severity]);
  expect(severities(await check({ MODELS_FILE: path }))).toEqual([['things', undefined]]);
  expect(severities(await check({ MODELS_FILE: path }, true))[0]).toEqual(['events', 'error']);
  expect(severities(await check({}))).toEqual([['events', 'error']]);
});
