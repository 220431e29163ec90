import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { parseArgs, promisify } from 'node:util';
import pg from 'pg';
import { encoders } from '../src/encoders/index.ts';

/**
 * Compares the path from PostgreSQL to a file's bytes with the database's own speed: wall time over
 * that of `psql COPY (FORMAT binary)` into nothing, interleaved, medians. The files go nowhere: what
 * a destination costs is not in it.
 *
 *   npm run bench:datapath -- --database postgres://… [--rows 400000] [--rounds 3] [--only JSONLines]
 */
const { values } = parseArgs({
  options: {
    database: { type: 'string' },
    rows: { type: 'string', default: '400000' },
    rounds: { type: 'string', default: '3' },
    only: { type: 'string', default: '' },
  },
});
if (values.database === undefined) throw new Error('--database names the server to measure on');
const rowCount = Number(values.rows);
const rounds = Number(values.rounds);
const start = Date.parse('2024-03-01T00:00:00Z');
/** One hour, however many rows. */
const end = start + 3_600_000;
const columns =
  'uuid, event, properties, distinct_id, person_id, person_properties, elements_chain, "timestamp", created_at, inserted_at';
const select = `SELECT ${columns} FROM events WHERE team_id = 1 AND inserted_at >= to_timestamp(${start / 1000}) AND inserted_at < to_timestamp(${end / 1000})`;

interface Taken {
  readonly wallMs: number;
  readonly cpuMs?: number;
  readonly peakMb?: number;
  readonly bytes?: number;
}

const name = `sluice_bench_${randomBytes(4).toString('hex')}`;
const admin = new pg.Client(values.database);
await admin.connect();
await admin.query(`CREATE DATABASE ${name}`);
try {
  const url = new URL(values.database);
  url.pathname = `/${name}`;
  await fill(url.href);
  await measure(url.href);
} finally {
  await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
  await admin.end();
}

/** Events of about 1 kB, two thirds of them of the team that is exported. */
async function fill(url: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query(`
    CREATE TABLE events (
      uuid uuid PRIMARY KEY, team_id int NOT NULL, event text NOT NULL, distinct_id text NOT NULL,
      properties jsonb NOT NULL, person_id uuid, person_properties jsonb, elements_chain text,
      "timestamp" timestamptz NOT NULL, created_at timestamptz NOT NULL,
      inserted_at timestamptz NOT NULL DEFAULT now())`);
  await client.query(
    `INSERT INTO events
     SELECT gen_random_uuid(), 1 + (n % 3 = 2)::int,
            (ARRAY['$pageview', '$autocapture', 'signed up', 'purchased', '$identify'])[1 + n % 5],
            'user-' || n * 7919 % 50000 || '@example.com',
            jsonb_build_object(
              '$browser', (ARRAY['Chrome', 'Safari', 'Firefox'])[1 + n % 3], '$os', 'Mac OS X',
              '$current_url', 'https://app.example.com/project/' || n % 977 || '/insights?q=' || md5(n::text),
              '$lib', 'web', '$lib_version', '1.96.1', '$screen_height', 1080, '$screen_width', 1920,
              '$session_id', gen_random_uuid(), '$referrer', 'https://www.google.com/',
              '$ip', '10.0.' || n % 255 || '.1', 'amount', n % 10000 / 100.0,
              '$insert_id', md5((n * 3)::text), 'title', 'Größe “' || n || '”',
              'utm_source', CASE WHEN n % 7 = 0 THEN 'newsletter' END),
            gen_random_uuid(),
            jsonb_build_object('email', 'user-' || n * 7919 % 50000 || '@example.com', 'plan',
              (ARRAY['free', 'pro', 'scale'])[1 + n % 3], 'name', 'User ' || n, 'created', at),
            CASE WHEN n % 5 = 1 THEN 'button.primary:text="Save ""it"""; div.container' ELSE '' END,
            at, at, at
       FROM generate_series(0, $1::bigint - 1) n,
            LATERAL (SELECT to_timestamp($2) + n * interval '3600 s' / $1 AS at) t`,
    [Math.ceil(rowCount * 1.5), start / 1000],
  );
  await client.query('CREATE INDEX ON events (team_id, inserted_at)');
  await client.query('VACUUM ANALYZE events');
  await client.end();
}

async function measure(url: string): Promise<void> {
  const psql = `psql '${url}' -qc "COPY (${select.replaceAll('"', '\\"')}) TO STDOUT`;
  const ways: [string, () => Promise<Taken>][] = [
    ['the limit: psql COPY binary', () => shell(`${psql} (FORMAT binary)" > /dev/null`)],
    ['psql COPY csv | gzip -6', () => shell(`${psql} (FORMAT csv, HEADER)" | gzip -6 > /dev/null`)],
  ];
  for (const { format, compressions } of encoders) {
    for (const compression of compressions) {
      const label = compression === null ? format : `${format} + ${compression}`;
      if (!label.startsWith(values.only)) continue;
      ways.push([label, () => exportOnce(url, format, compression ?? 'none')]);
    }
  }
  const taken = new Map<string, Taken[]>(ways.map(([label]) => [label, []]));
  for (let round = 0; round <= rounds; round += 1) {
    for (const [label, run] of ways) {
      const result = await run();
      // The first round warms the caches.
      if (round > 0) taken.get(label)?.push(result);
    }
  }
  report(taken);
}

async function shell(command: string): Promise<Taken> {
  const startedAt = performance.now();
  const child = spawn('sh', ['-c', command], { stdio: ['ignore', 'inherit', 'inherit'] });
  const code = await new Promise((resolve) => child.on('close', resolve));
  if (code !== 0) throw new Error(`failed: ${command}`);
  return { wallMs: performance.now() - startedAt };
}

async function exportOnce(url: string, format: string, compression: string): Promise<Taken> {
  const script = path.join(import.meta.dirname, 'export-once.js');
  const given = [script, url, format, compression, `${start}`, `${end}`];
  const { stdout } = await promisify(execFile)(process.execPath, given);
  return JSON.parse(stdout);
}

function report(taken: ReadonlyMap<string, readonly Taken[]>): void {
  const median = (numbers: readonly number[]) =>
    numbers.toSorted((one, other) => one - other)[numbers.length >> 1] ?? Number.NaN;
  const of = (results: readonly Taken[], key: keyof Taken) =>
    median(results.map((result) => result[key] ?? Number.NaN));
  const limitMs = of([...taken.values()][0] ?? [], 'wallMs');
  const shown = (value: number, digits = 0) => (Number.isNaN(value) ? '' : value.toFixed(digits));
  const lines = [...taken].map(([label, results]) => {
    const wallMs = of(results, 'wallMs');
    const cells = [
      label,
      shown(wallMs / limitMs, 2),
      shown(wallMs),
      shown(of(results, 'cpuMs')),
      shown(of(results, 'peakMb')),
      shown(of(results, 'bytes') / 1e6, 1),
    ];
    return `| ${cells.join(' | ')} |`;
  });
  const head = `| ${rowCount} rows, ${rounds} rounds | ratio | wall ms | own CPU ms | peak MB | file MB |`;
  process.stdout.write(`${[head, '|---|---|---|---|---|---|', ...lines].join('\n')}\n`);
}
