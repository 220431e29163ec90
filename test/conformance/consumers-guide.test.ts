import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest';
import { keyNames, usualFileName } from '../../src/foundation/domain/file-name.ts';
import { fileDefinition } from '../../src/rows/destinations/file/definition.ts';
import { askClickHouse, hasClickHouse } from '../support/clickhouse/ask.ts';
import { createEmptyDatabase } from '../support/database.ts';
import {
  attempt,
  encodingOf,
  firstJob,
  type IntervalBench,
  openIntervalBench,
} from '../support/interval-bench.ts';
import { projectRoot } from '../support/processes.ts';
import { contextWith, owner } from './destination-suite.ts';
import { inTest } from '../support/use-stage.ts';

/** polars; null on a platform that it has no binary for. */
const polars = await import('nodejs-polars').then(
  (module) => module.default,
  () => null,
);

const rows = 120;
/** Texts that readers have taken for something else. */
const texts = [
  ...['  lead', 'trail  ', '\ttab', '\\N', '\\.', 'NULL', '', null, '"quoted"', "'", 'a,b'],
  ...['line\nbreak', 'cr\rlf', 'both\r\n', '=1+1', 'é', 'e\u0301', '\u2028', '\ufeff', '🙂', '/'],
  ...['0123', '1e5', 'true', '2024-03-01', 'nan', '..', '{"a":1}', '[]', 'x'.repeat(1_000)],
];
/** Keys that differ in case, and numbers that are texts later. */
const documents = [
  ...['{"a": 1, "A": 2}', '{"n": 5}', '{"n": "later a text"}', '{"n": [1, {"x": null}]}', '{}'],
  ...['{"": "", "b \\" c": "\\u2028\\n"}', '{"n": 9007199254740993, "m": 0.1}', null],
];

let bench: IntervalBench;
let root: string;
let expected: readonly EventRow[];

beforeAll(async () => {
  bench = await openIntervalBench(rows);
  const { pool } = bench.database;
  await pool.query(
    `with numbered as (select uuid, row_number() over (order by inserted_at) - 1 as n from events)
     update events e set event = ($1::text[])[1 + n % $2], elements_chain = ($1::text[])[1 + n * 7 % $2],
            distinct_id = case when n < 60 then n::text else 'user ' || n end,
            properties = ($3::jsonb[])[1 + n % $4], person_id = case when n % 3 = 0 then person_id end,
            "timestamp" = inserted_at + n * interval '1.000001 hours', created_at = nullif(created_at, inserted_at)
       from numbered where numbered.uuid = e.uuid`,
    [texts, texts.length, documents, documents.length],
  );
  const { rows: found } = await pool.query({
    text: `select ${columnsOf(textOfPostgres).join(', ')} from events`,
    rowMode: 'array',
  });
  expected = eventsOf(found);
});
afterAll(() => bench?.drop());
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'sluice-guide-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

type Kind = 'text' | 'json' | 'time';
const kinds: Readonly<Record<string, Kind>> = {
  ...{ uuid: 'text', event: 'text', properties: 'json', distinct_id: 'text', person_id: 'text' },
  ...{ person_properties: 'json', elements_chain: 'text', timestamp: 'time' },
  ...{ created_at: 'time', inserted_at: 'time' },
};

/** The columns as texts, in the words of a system. */
const columnsOf = (textOf: (name: string, kind: Kind) => string) =>
  Object.entries(kinds).map(([name, kind]) => textOf(`"${name}"`, kind));

const textOfPostgres = (name: string, kind: Kind) =>
  kind === 'time'
    ? `to_char(${name} at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')`
    : `${name}::text`;

type EventRow = Readonly<Record<string, unknown>>;

/** JSON by its value and times as texts of one form, in the order of the keys. */
function eventsOf(found: readonly (readonly unknown[])[]): readonly EventRow[] {
  const value = (given: unknown, kind: Kind | undefined) => {
    if (given === null || kind === 'text' || typeof given === 'object') return given;
    const text = String(given);
    return kind === 'json' ? JSON.parse(text) : text.replace('T', ' ').replace('Z', '');
  };
  return found
    .map((row) =>
      Object.fromEntries(
        Object.entries(kinds).map(([name, kind], at) => [name, value(row[at], kind)]),
      ),
    )
    .toSorted((a, b) => (String(a.uuid) < String(b.uuid) ? -1 : 1));
}

/** The commands of the guide for a system, those for one format last, over the exported files. */
function commandsOf(system: string, format: string): string {
  const guide = readFileSync(join(import.meta.dirname, '../../docs/consumers.md'), 'utf8');
  const blocks = [...guide.matchAll(/<!-- run: (.+?) -->\n\n```(?:sql|js)\n(.*?)```/gs)];
  const wanted = [system, `${system} ${format}`];
  const found = wanted.map((name) => blocks.find(([, of]) => of === name)?.[2]);
  expect(found).not.toContain(undefined);
  return found.join('\n').replaceAll('/data/exports/', `${root}/acme/`);
}

/** Exports the hour in files of about a fifth of its rows. */
async function exportHour(
  config: { readonly file_format: string; readonly csv_null?: string },
  partitionBy: readonly string[] = [],
): Promise<void> {
  const context = contextWith({ fileDestinationRoot: root });
  const destination = fileDefinition.open({ directory: 'acme' }, context, owner);
  const encoding = encodingOf(config);
  const job = firstJob({ encoding, maxFileBytes: 16_000, partitionBy });
  const names = keyNames('events', usualFileName, job.interval);
  const { result } = await attempt(bench, destination, { ...job, names }).exported;
  expect(result.files.length).toBeGreaterThan(1);
  // The server of the test may be another user's.
  execFileSync('chmod', ['-R', 'a+rX', root]);
}

const copy = ['sh', '-c', 'cp "$1" "unfinished-$(basename "$1")"', '-', '{}', ';'];
const formats = ['Parquet', 'JSONLines', 'CSV'] as const;

async function readByDuckDb(commands: string, ...columns: readonly string[]) {
  const connection = await (await DuckDBInstance.create()).connect();
  try {
    await connection.run(commands);
    const read = await connection.runAndReadAll(`SELECT ${columns.join(', ')} FROM events`);
    return read.getRows();
  } finally {
    connection.closeSync();
  }
}
/** The mark keeps Node's decoder from taking U+FEFF for a byte order mark. */
const textOfDuckDb = (name: string, kind: Kind) =>
  kind === 'time'
    ? `strftime(${name} AT TIME ZONE 'UTC', '>%Y-%m-%d %H:%M:%S.%f')`
    : `'>' || ${name}::VARCHAR`;
const withoutMark = (value: unknown) => (value === null ? null : String(value).slice(1));

it.each(formats)('loads %s into DuckDB, value by value', async (format) => {
  await exportHour({ file_format: format });
  const found = await readByDuckDb(commandsOf('duckdb', format), ...columnsOf(textOfDuckDb));
  expect(eventsOf(found.map((row) => row.map(withoutMark)))).toEqual(expected);
});

it('loads a row of 3 MB of CSV into DuckDB', async () => {
  const { pool, sql } = bench.database;
  const change = (properties: string) =>
    pool.query(`update events set properties = ${properties} where uuid = $1`, [expected[0]?.uuid]);
  await change(`jsonb_build_object('large', repeat('a "quoted" text ', 200000))`);
  onTestFinished(async () => {
    await sql`update events set properties = ${expected[0]?.properties ?? null}
        where uuid = ${expected[0]?.uuid}`;
  });
  await exportHour({ file_format: 'CSV' });
  const lengths = await readByDuckDb(commandsOf('duckdb', 'CSV'), 'max(length(properties))');
  expect(Number(lengths[0]?.[0])).toBeGreaterThan(3_000_000);
});

it('loads folders by values into DuckDB', async () => {
  await exportHour({ file_format: 'Parquet' }, ['event', 'day(inserted_at)']);
  const found = await readByDuckDb(commandsOf('duckdb', 'partitions'), 'uuid');
  expect(found.flat().toSorted()).toEqual(expected.map(({ uuid }) => uuid));
});

it('reads nothing in DuckDB if no interval has rows: the form of the guide does not fail', async () => {
  await mkdir(join(root, 'acme/events'), { recursive: true });
  const manifest = join(root, 'acme/events/20240301T000000Z-20240301T010000Z_manifest.json');
  await writeFile(manifest, '{"files": []}');
  expect(await readByDuckDb(commandsOf('duckdb', 'none'), 'uuid')).toEqual([]);
  for (const format of formats) {
    await expect(readByDuckDb(commandsOf('duckdb', format), 'uuid')).rejects.toThrow(
      'cannot take NULL list',
    );
  }
});

it.runIf(hasClickHouse).each([
  ['Parquet', []],
  ['Parquet', ['event', 'day(inserted_at)']],
  ['JSONLines', []],
  ['CSV', []],
])('loads %s into ClickHouse, value by value, with folders %j', async (format, folders) => {
  await exportHour({ file_format: format, csv_null: '\\N' }, folders);
  // Another generation, which no manifest names.
  execFileSync('find', [root, '-type', 'f', '-not', '-name', '*.json', '-execdir', ...copy]);
  const commands = commandsOf('clickhouse', format)
    .split(/;\n+/)
    .filter((one) => one.trim());
  const columns = columnsOf((name) => `toString(${name})`);
  const found = await askClickHouse(...commands, `SELECT ${columns.join(', ')} FROM events`);
  expect(eventsOf(found)).toEqual(expected);
});

it.skipIf(polars === null)('loads Parquet into polars, value by value', async () => {
  await exportHour({ file_format: 'Parquet' });
  const names = JSON.stringify(Object.keys(kinds));
  const program = `${commandsOf('polars', 'Parquet')}
        const columns = ${names}.map((name) => events.getColumn(name).toArray());
        process.stdout.write(JSON.stringify(columns));`;
  const options = ['--input-type=module', '--eval', program];
  const output = execFileSync(process.execPath, options, { cwd: projectRoot });
  const columns: unknown[][] = JSON.parse(String(output));
  const found = expected.map((_, row) => columns.map((column) => column[row] ?? null));
  // JavaScript's dates have milliseconds.
  const comparable = (row: EventRow) =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => [
        name,
        kinds[name] === 'time' && value !== null ? String(value).slice(0, 23) : value,
      ]),
    );
  expect(eventsOf(found).map(comparable)).toEqual(expected.map(comparable));
});

it.each(['JSONLines', 'CSV'])('loads %s into PostgreSQL, value by value', async (format) => {
  await exportHour({ file_format: format });
  const database = await inTest(createEmptyDatabase());
  await database.admin.query(commandsOf('postgres', format));
  const { rows: found } = await database.admin.query({
    text: `SELECT ${columnsOf(textOfPostgres).join(', ')} FROM events`,
    rowMode: 'array',
  });
  expect(eventsOf(found)).toEqual(expected);
});
