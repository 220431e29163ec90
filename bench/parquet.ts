import { mkdtemp, open, rm, stat } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { openParquet } from '../src/rows/encoders/parquet/encode.ts';
import { describeMachine } from './datapath/report.ts';
import { replaceSection } from './document.ts';
import { type BenchTable, benchTables } from './parquet/tables.ts';

/**
 * Compares our Parquet files with DuckDB's own files of the same rows, both with zstd: their size, and
 * DuckDB's time for `id = x`, `id between` and a full scan. Every figure is ours over DuckDB's.
 *
 *   npm run bench:parquet -- [--rows 5000000] [--rounds 5] [--only narrow] [--write]
 *
 * `--rows` are those of the narrow table; the others have as many bytes. --write puts the table into
 * docs/internals/benchmarks.md.
 */
const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '5000000' },
    rounds: { type: 'string', default: '5' },
    only: { type: 'string', default: '' },
    write: { type: 'boolean', default: false },
  },
});
const rows = Number(values.rows);
const rounds = Number(values.rounds);

const folder = await mkdtemp(path.join(tmpdir(), 'sluice-parquet-'));
try {
  const lines: string[] = [];
  for (const table of benchTables(rows)) {
    if (table.name.startsWith(values.only)) lines.push(await compare(table));
  }
  const head = [
    '| table | rows | size | size beside v2 | `id = x` | `id between` | full scan |',
    '|---|---|---|---|---|---|---|',
  ];
  const about = `${describeMachine()}, ${rounds} rounds`;
  const text = `${about}\n\n${[...head, ...lines].join('\n')}`;
  process.stdout.write(`${text}\n`);
  if (values.write) await replaceSection('parquet', text);
} finally {
  await rm(folder, { recursive: true });
}

/** One line of the table. */
async function compare(table: BenchTable): Promise<string> {
  const file = (name: string) => path.join(folder, `${table.name}-${name}.parquet`);
  await writeOurs(table, file('ours'));
  const instance = await DuckDBInstance.create(':memory:', { threads: String(cpus().length) });
  const duckDb = await instance.connect();
  try {
    for (const version of ['v1', 'v2']) {
      await duckDb.run(
        `copy (from read_parquet('${file('ours')}')) to '${file(version)}' (format parquet, compression zstd, parquet_version ${version})`,
      );
    }
    const [ours, v1, v2] = await Promise.all(
      ['ours', 'v1', 'v2'].map(async (name) => (await stat(file(name))).size),
    );
    const times = [];
    for (const query of queriesOf(table)) {
      times.push(await ratioOf(duckDb, (name) => query(`read_parquet('${file(name)}')`)));
    }
    const sizes = [v1, v2].map((other) => Number(ours) / Number(other));
    const figures = [...sizes, ...times];
    return `| ${[table.name, table.rows, ...figures.map((one) => one.toFixed(2))].join(' | ')} |`;
  } finally {
    duckDb.closeSync();
    instance.closeSync();
  }
}

async function writeOurs({ columns, blocks }: BenchTable, name: string): Promise<void> {
  const origin = { exportId: 'bench', interval: { start: 0, end: 1000 }, keyIndices: [0] };
  const encoder = openParquet(columns, 'zstd', undefined, { origin });
  const out = await open(name, 'w');
  for (const block of blocks()) {
    for (const chunk of await encoder.write(block)) await out.write(chunk);
  }
  for (const chunk of await encoder.finish()) await out.write(chunk);
  await out.close();
}

type Query = (from: string) => string;

function queriesOf({ rows: count, scanned }: BenchTable): readonly Query[] {
  const middle = Math.floor(count / 2) + 17;
  // DuckDB takes a maximum of numbers from the statistics: this reads every value.
  const all = scanned.map((name) => `max(hash("${name}"))`).join(', ');
  return [
    (from) => `select * from ${from} where id = ${middle}`,
    (from) => `select * from ${from} where id between ${middle} and ${middle + 100}`,
    (from) => `select ${all} from ${from}`,
  ];
}

/** Median time on our file over that on DuckDB's, in turns. */
async function ratioOf(duckDb: DuckDBConnection, sqlOf: (name: string) => string): Promise<number> {
  const taken = { ours: [] as number[], v1: [] as number[] };
  // The first round warms up.
  for (let round = 0; round <= rounds; round++) {
    for (const name of ['ours', 'v1'] as const) {
      const start = performance.now();
      await duckDb.runAndReadAll(sqlOf(name));
      if (round > 0) taken[name].push(performance.now() - start);
    }
  }
  return medianOf(taken.ours) / medianOf(taken.v1);
}

function medianOf(times: readonly number[]): number {
  return times.toSorted((one, other) => one - other)[times.length >> 1] ?? Number.NaN;
}
