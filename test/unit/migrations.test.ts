import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const folder = new URL('../../migrations/', import.meta.url);
const files = readdirSync(folder).sort();

/** What the build before a migration may still use, by what takes it away. */
const contractions: readonly (readonly [what: string, pattern: RegExp])[] = [
  ['drops', /^(drop\s|alter table .*\bdrop\s+(?!not null|default))/],
  ['renames', /^alter\s.*\brename\b/],
  ['changes a type', /^alter table .*\balter (column )?\S+ (set data )?type\b/],
  ['demands a value', /^alter table .*\bset not null\b/],
  [
    'demands a value of a new column',
    /^alter table .*\badd (column )?(if not exists )?(?!constraint)[^,]*\bnot null\b(?![^,]*\b(default|generated)\b)(?<!\b(default|generated)\b[^,]*)/,
  ],
];

/** Says that the release before no longer uses what goes: `-- Contracts: 1.4.0 stopped using runs.cursor`. */
const permission = /^-- Contracts: \d+\.\d+\.\d+ stopped using \S/m;

function findContractions(sql: string): readonly string[] {
  if (permission.test(sql)) return [];
  const statements = sql
    .replace(/--.*$/gm, '')
    .split(';')
    .map((statement) => statement.replace(/\s+/g, ' ').trim().toLowerCase());
  return statements.flatMap((statement) =>
    contractions.filter(([, pattern]) => pattern.test(statement)).map(([what]) => what),
  );
}

test('migrations are numbered without a gap', () => {
  expect(files.map((file) => Number(/^(\d{4})_[a-z0-9_]+\.sql$/.exec(file)?.[1]))).toEqual(
    files.map((_, index) => index + 1),
  );
});

test('later files take nothing away that the build before them uses', () => {
  const found = files.slice(1).flatMap((file) => {
    const sql = readFileSync(new URL(file, folder), 'utf8');
    return findContractions(sql).map((what) => `${file} ${what}`);
  });
  expect(found).toEqual([]);
});

test('no file has a Down section: the way back is the old release on the new schema', () => {
  const texts = files.map((file) => readFileSync(new URL(file, folder), 'utf8'));
  expect(texts.filter((sql) => /^\s*--[\s-]*(up|down) migration/im.test(sql))).toEqual([]);
});

test.each([
  ['drop table runs', ['drops']],
  ['alter table runs drop column cursor', ['drops']],
  ['alter table runs\n  add column a int,\n  drop constraint c', ['drops']],
  ['alter table runs rename column cursor to place', ['renames']],
  ['alter table runs alter column files type bigint', ['changes a type']],
  ['alter table runs alter files set not null', ['demands a value']],
  ['alter table runs add column a int not null', ['demands a value of a new column']],
  ['alter table runs add a int not null check (a > 0)', ['demands a value of a new column']],
  ['alter table runs add column a int not null default 0', []],
  ['alter table runs add column a int default 0 not null', []],
  ['alter table runs add column a int', []],
  ['alter table runs alter column files drop not null', []],
  ['create table a (b int not null)', []],
  ['create index a on b (c)', []],
  ['-- drop table runs\nselect 1', []],
  ['-- Contracts: 1.4.0 stopped using runs.cursor\nalter table runs drop column cursor', []],
])('%s is recognised', (sql, expected) => {
  expect(findContractions(`${sql};\n`)).toEqual(expected);
});
