import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { startEmbeddedPostgres } from '../src/state/embedded-postgres/start.ts';
import { describeMachine, printTable } from './datapath/report.ts';
import { startReplay } from './datapath/start-replay.ts';
import { startSink } from './datapath/start-sink.ts';
import { type BenchTable, benchTables, fillTable } from './datapath/tables.ts';
import type { Taken } from './datapath/taken.ts';
import { hasShellTools, type Way, type WaysOptions, waysToRun } from './datapath/ways.ts';
import { replaceSection } from './document.ts';

/**
 * Compares the path from PostgreSQL to an S3 with the database's own speed: wall time over that of
 * `psql COPY (FORMAT binary)` into nothing, which goes before each; medians of the rounds. Each round also
 * makes sure that ours read every row and that every byte of it has come, so `--rounds 0` is a check
 * alone; of the other ways, that they read every row (the libraries) and sent something.
 *
 *   npm run bench:datapath -- [--table events] [--rows 400000] [--rounds 3] [--only Parquet] [--every | --modes] [--write]
 *                             [--database postgres://…] [--stub]
 *
 * Without --database a PostgreSQL of its own is started. --every takes all compressions of all
 * formats, --modes compares the modes of an export of events with mode append, --write puts the table into docs/internals/benchmarks.md. --table takes wide, narrow, taxi and jsonb too. With --stub ours get
 * the answers of the database from memory, so that it is not what limits them: compare their times, not the ratio. Needs psql, gzip and curl, but for a check.
 */
const { values } = parseArgs({
  options: {
    database: { type: 'string' },
    table: { type: 'string', default: 'events' },
    rows: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    only: { type: 'string', default: '' },
    every: { type: 'boolean', default: false },
    modes: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
    stub: { type: 'boolean', default: false },
  },
});
const table = benchTables.find(({ name }) => name === values.table);
if (!table) throw new RangeError(`--table takes ${benchTables.map(({ name }) => name).join(', ')}`);
const rows = Number(values.rows ?? table.rows);
const rounds = Number(values.rounds);
if (!Number.isSafeInteger(rows) || rows < 1 || !Number.isSafeInteger(rounds) || rounds < 0) {
  throw new RangeError('--rows and --rounds take whole numbers');
}

const shellIsThere = hasShellTools();
if (!shellIsThere && rounds > 0) throw new Error('psql, gzip and curl must be on the PATH');

if (values.database === undefined) {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'sluice-bench-'));
  const postgres = await startEmbeddedPostgres({ dataDir, settings: { shared_buffers: '1GB' } });
  await measureOn(postgres.url, table).finally(() => postgres.stop());
  await rm(dataDir, { recursive: true });
} else {
  await measureOn(values.database, table);
}

/** In a database of its own, which is dropped again. */
async function measureOn(server: string, table: BenchTable): Promise<void> {
  const admin = new pg.Client(server);
  await admin.connect();
  const name = `sluice_bench_${randomBytes(4).toString('hex')}`;
  await admin.query(`CREATE DATABASE ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  const sink = await startSink();
  const replay = values.stub ? await startReplay(url.href) : null;
  try {
    await fillTable(url.href, table, rows);
    const { every, modes } = values;
    const readUrl = replay?.url ?? url.href;
    const results = await measure({ url: url.href, readUrl, sink, table, every, modes });
    const { rows: versions } = await admin.query('SHOW server_version');
    const about = `${rows} rows of ${table.name}, ${rounds} rounds; ${describeMachine()}, PostgreSQL ${versions[0].server_version}`;
    const printed = rounds === 0 ? 'every row was read, every byte has come' : printTable(results);
    process.stdout.write(`${about}\n\n${printed}\n`);
    if (values.write) await write(table, about, printed);
  } finally {
    sink.stop();
    replay?.stop();
    await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
    await admin.end();
  }
}

async function measure(options: WaysOptions): Promise<ReadonlyMap<Way, readonly Taken[]>> {
  const [limit, ...others] = waysToRun(options);
  const chosen = others.filter(({ label }) => label.startsWith(values.only));
  // The limit goes before each of the others: a machine is not equally fast all the time.
  const ways = chosen
    .flatMap((way) => (limit ? [limit, way] : [way]))
    .filter(({ kind }) => shellIsThere || (kind !== 'limit' && kind !== 'shell'));
  const results = new Map<Way, Taken[]>();
  for (let round = 0; round <= rounds; round += 1) {
    for (const way of ways) {
      const taken = await way.run();
      const sunk = await options.sink.take();
      check(way, taken, sunk);
      const bytes = way.kind === 'limit' ? null : sunk;
      // The first round warms the caches.
      if (round > 0) results.set(way, [...(results.get(way) ?? []), { ...taken, bytes }]);
    }
  }
  return results;
}

/** A way that leaves something out is fast for nothing. */
function check({ kind, label }: Way, taken: Taken, sunk: number): void {
  if (kind !== 'limit' && sunk === 0) throw new Error(`${label}: nothing has come`);
  if (taken.rows !== null && taken.rows !== rows) {
    throw new Error(`${label}: ${taken.rows} of ${rows} rows were read`);
  }
  if (taken.bytes !== null && taken.bytes !== sunk) {
    throw new Error(`${label}: ${taken.bytes} bytes were counted and ${sunk} have come`);
  }
}

/** The page has the table of events; the others are only printed. */
async function write({ name }: BenchTable, about: string, printed: string): Promise<void> {
  if (name !== 'events') return;
  if (values.modes) {
    const intro = `All rows of an export by mode, as JSON Lines, by \`npm run bench:datapath -- --modes --write\`: ${about}. The ratio is to the wall
time of mode append, which goes before each of the others in each round.`;
    await replaceSection('modes', `${intro}\n\n${printed}`);
    return;
  }
  const intro = `This table measures the path from PostgreSQL to an S3 server that discards all data, on one machine, in one run of
\`npm run bench:datapath -- --write\`: ${about}.

The ratio is the wall time divided by that of the first line, in which only the database works.

- The bar is the highest ratio that we accept.
- Own CPU, in all and per row, and memory are those of the exporting process. Plugin CPU is that of the processes of own plugins. The database and the S3 server use the
  same cores.
- Only our process is warm, like a worker that gets a run: it has already exported a sixth of the rows. It has the malloc settings of the
  Dockerfile and the systemd units, and only one run.
- The figures leave out what a worker writes to its own database.
- Our gzip is at level 5, the shell's at 6.`;
  await replaceSection('datapath', `${intro}\n\n${printed}`);
}
