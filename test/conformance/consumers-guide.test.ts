import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { keyNames, usualFileName } from '../../src/foundation/domain/file-name.ts';
import { fileDefinition } from '../../src/rows/destinations/file/definition.ts';
import { createEmptyDatabase } from '../support/database.ts';
import {
  attempt,
  encodingOf,
  firstJob,
  type IntervalBench,
  openIntervalBench,
} from '../support/interval-bench.ts';
import { polars } from '../support/polars.ts';
import { projectRoot } from '../support/processes.ts';
import { contextWith, owner } from './destination-suite.ts';

const rows = 60;
let bench: IntervalBench;
let root: string;

beforeAll(async () => {
  bench = await openIntervalBench(rows);
});
afterAll(() => bench?.drop());
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'sluice-guide-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

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
async function exportHour(format: string, partitionBy: readonly string[] = []): Promise<void> {
  const context = contextWith({ fileDestinationRoot: root });
  const destination = fileDefinition.open({ directory: 'acme' }, context, owner);
  const encoding = encodingOf({ file_format: format });
  const job = firstJob({ encoding, maxFileBytes: 8_000, partitionBy });
  const names = keyNames('events', usualFileName, job.interval);
  const { result } = await attempt(bench, destination, { ...job, names }).exported;
  expect(result.files.length).toBeGreaterThan(1);
  // The server of the test may be another user's.
  execFileSync('chmod', ['-R', 'a+rX', root]);
}

const summary = `count(*)::int AS "rows", count(DISTINCT uuid)::int AS "keys",
  count(DISTINCT event)::int AS "events", count(inserted_at)::int AS "times"`;
const expected = { rows, keys: rows, events: 3, times: rows };

describe('the consumer’s guide', () => {
  it.each(['Parquet', 'JSONLines', 'CSV'])('loads %s into DuckDB', async (format) => {
    await exportHour(format);
    const connection = await (await DuckDBInstance.create()).connect();
    try {
      await connection.run(commandsOf('duckdb', format));
      const read = await connection.runAndReadAll(`SELECT ${summary} FROM events`);
      expect(read.getRowObjects()).toEqual([expected]);
    } finally {
      connection.closeSync();
    }
  });

  it('loads folders by values into DuckDB', async () => {
    await exportHour('Parquet', ['event', 'day(inserted_at)']);
    const connection = await (await DuckDBInstance.create()).connect();
    try {
      await connection.run(commandsOf('duckdb', 'partitions'));
      const read = await connection.runAndReadAll(`SELECT ${summary} FROM events`);
      expect(read.getRowObjects()).toEqual([expected]);
    } finally {
      connection.closeSync();
    }
  });

  it.skipIf(polars === null).each(['Parquet', 'JSONLines', 'CSV'])(
    'loads %s into polars',
    async (format) => {
      await exportHour(format);
      const program = `${commandsOf('polars', format)}
        const distinct = (name) => events.getColumn(name).nUnique();
        const times = events.height - events.getColumn('inserted_at').nullCount();
        const found = { rows: events.height, keys: distinct('uuid'), events: distinct('event'), times };
        process.stdout.write(JSON.stringify(found));`;
      const options = ['--input-type=module', '--eval', program];
      const output = execFileSync(process.execPath, options, { cwd: projectRoot });
      expect(JSON.parse(String(output))).toEqual(expected);
    },
  );

  it.each(['JSONLines', 'CSV'])('loads %s into PostgreSQL', async (format) => {
    await exportHour(format);
    const database = await createEmptyDatabase();
    try {
      await database.pool.query(commandsOf('postgres', format));
      const { rows: found } = await database.pool.query(`SELECT ${summary} FROM events`);
      expect(found).toEqual([expected]);
    } finally {
      await database.drop();
    }
  });
});
