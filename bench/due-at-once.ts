import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { createSecretBox } from '../src/foundation/security/secret-box.ts';
import { openDatabase } from '../src/state/store/database/database.ts';
import type { ObjectWrite } from '../test/support/s3-server/recorder.ts';
import { createTenant } from '../test/support/tenants.ts';
import { describeMachine } from './datapath/report.ts';
import { lineOf, replaceLines } from './document.ts';
import { measureApi, percentilesOf } from './service/api-times.ts';
import { perRun, takeCpu, totalOf } from './service/cpu.ts';
import { watchIdle } from './service/idle.ts';
import { Processes, s3Credentials } from './service/processes.ts';
import { startServer } from './service/server.ts';
import { nameOf, parseShape, type Shape, startService } from './service/shape.ts';

/**
 * From the tick to the end: exports that are due in the same instant, without jitter, in the shapes in which users run Sluice.
 * First to an S3, with 100 rows each: when the store had the first object of each. Then empty ones to NoOp: when
 * all are done. Each kind is due twice: first by a worker that has just started, of exports that never ran (cold), then
 * again (warm). All of them belong to as many organizations as `--organizations` says, in turn.
 *
 *   npm run bench:due -- [--postgres 15,18] [--shape all-in-one,processes] [--organizations 100] [--s3 1000] [--empty 10000]
 *                        [--seconds 100] [--write]
 *
 * --write puts the lines into docs/internals/benchmarks.md.
 */
const { values } = parseArgs({
  options: {
    organizations: { type: 'string', default: '100' },
    s3: { type: 'string', default: '1000' },
    empty: { type: 'string', default: '10000' },
    postgres: { type: 'string', default: '15,18' },
    shape: { type: 'string', default: 'all-in-one,processes' },
    /** Each part is given up after this time, and what is left is counted. */
    seconds: { type: 'string', default: '100' },
    write: { type: 'boolean', default: false },
  },
});
const week = 7 * 86_400_000;
const organizations = Number(values.organizations);

const encryptionKey = randomBytes(32);
const secrets = createSecretBox([{ id: 'bench', key: encryptionKey }]);
const secretOf = {
  aws_access_key_id: s3Credentials.id,
  aws_secret_access_key: s3Credentials.secret,
};
const configOf = {
  bucket_name: 'exports',
  region: 'us-east-1',
  prefix: '{batch_export_id}/',
  endpoint_url: '',
  file_format: 'JSONLines',
  compression: 'gzip',
};
const head = [
  ...['installation', 'due at once', 'completed', 'ticks recorded after s', 'last ended after s'],
  ...['first object ms, p50 / p99', 'API ms, p50 / p99'],
  ...['CPU ms per run, all processes', 'of these PostgreSQL', 'no core busy'],
];
/** Of the server that is measured. */
let pool: pg.Pool;
for (const shape of values.shape.split(',').map(parseShape)) {
  for (const major of values.postgres.split(',')) {
    const { server, lines } = await measureShape(shape, major);
    process.stdout.write(`\n${[server, '', lineOf(head), ...lines].join('\n')}\n`);
    if (values.write) {
      await replaceLines('due', `- PostgreSQL ${major}`, [server]);
      await replaceLines('due', `| ${nameOf(shape, major)} |`, lines);
    }
  }
}

/** @returns Markdown */
async function measureShape(shape: Shape, major: string) {
  const processes = new Processes();
  const postgres = await startServer(major);
  pool = new pg.Pool({ connectionString: postgres.adminUrl, max: 3 });
  // `end` does not wait for the sockets, which see the server stop.
  pool.on('error', () => {});
  try {
    const { endpoint, control, child: s3 } = await processes.startS3();
    configOf.endpoint_url = endpoint;
    const redis = shape === 'processes' ? await processes.startRedis() : null;
    const service = await startService(processes, shape, {
      ...process.env,
      DATABASE_URL: postgres.url,
      REDIS_URL: redis?.url ?? '',
      ENCRYPTION_KEYS: `bench:${encryptionKey.toString('base64')}`,
      LOG_LEVEL: 'error',
      RATE_LIMIT_PER_MINUTE: '1000000',
      ALLOWED_PRIVATE_ENDPOINTS: '127.0.0.1',
      MAX_JITTER_SECONDS: '0',
    });
    const tenants = await makeTenants(postgres.url);
    const [first] = tenants;
    if (!first) throw new Error('no tenant');
    const exportsUrl = `${service.api}/api/projects/${first.team}/batch_exports/`;
    const lines: string[] = [];
    for (const kind of ['S3', 'NoOp'] as const) {
      const count = Number(kind === 'S3' ? values.s3 : values.empty);
      if (count === 0) continue;
      const teams = tenants.map(({ team }) => team);
      await service.renewWorker();
      const pids = {
        ...{ ...service.pids(), postgres: postgres.pid },
        ...{ redis: redis?.child.pid ?? 0, s3: s3.pid ?? 0 },
      };
      let dueAt = await makeDue(kind, count, teams);
      for (const time of ['cold', 'warm']) {
        if (time === 'warm') dueAt = await makeDueAgain(dueAt, count, teams);
        const endIdle = watchIdle();
        const { result, cpu } = await takeCpu(pids, async () => {
          const done = untilDone(dueAt, count);
          const answers = await measureApi(exportsUrl, first.key, done);
          return { answers, ...(await done) };
        });
        const { answers, completed, seconds, tickSeconds } = result;
        const idle = endIdle();
        const object = percentilesOf(await firstObjects(control, dueAt));
        const ofEach = perRun(cpu, completed);
        const cells = [
          ...[nameOf(shape, major), `${count} to ${kind}, ${time}`],
          ...[String(completed), tickSeconds.toFixed(1), seconds.toFixed(1)],
          kind === 'S3' ? `${object(0.5)} / ${object(0.99)}` : '',
          `${answers.p50} / ${answers.p99}`,
          ...[totalOf(ofEach).toFixed(1), ofEach.postgres.toFixed(1)],
          `${Math.round(100 * idle)}%`,
        ];
        lines.push(lineOf(cells));
      }
    }
    const sizes = `${organizations} organizations, default settings without jitter`;
    return { server: `- ${postgres.about}; ${sizes}; ${describeMachine()}`, lines };
  } finally {
    await processes.endAll();
    await pool.end();
    await postgres.stop();
  }
}

async function makeTenants(url: string): Promise<readonly { team: number; key: string }[]> {
  const db = openDatabase({
    connectionString: url,
    applicationName: 'bench',
    maxConnections: 2,
    onError: () => {},
  });
  const made: { team: number; key: string }[] = [];
  for (let n = 0; n < organizations; n += 1) {
    const { key, projectIds } = await createTenant(db);
    made.push({ team: projectIds[0], key });
    await pool.query(
      `insert into events (uuid, team_id, event, distinct_id, properties, timestamp, created_at, inserted_at)
       select gen_random_uuid(), $1, 'event', 'user ' || n, '{}', at, at, at
         from generate_series(1, 100) n, lateral (select now() - n * interval '1 h' as at) t`,
      [projectIds[0]],
    );
  }
  await db.close();
  return made;
}

/** Makes weekly exports that are due in the same instant, some seconds ahead. @returns that instant */
async function makeDue(
  kind: 'S3' | 'NoOp',
  count: number,
  teams: readonly number[],
): Promise<number> {
  await pool.query(
    'truncate ticks, outbox, receipts, runs, upload_places, leftover_files, log_entries cascade',
  );
  await pool.query('delete from batch_exports');
  const dueAt = Math.ceil((await readNow()) / 1_000 + 5 + count / 2_000) * 1_000;
  const ids = Array.from({ length: count }, () => randomUUID());
  const sealed = ids.map((id) => (kind === 'S3' ? secrets.seal(secretOf, id) : null));
  await pool.query(
    `insert into batch_exports (id, team_id, name, destination_type, destination_config, destination_secrets, "interval", schedule, next_tick_at)
     select e.id, ($1::int[])[1 + n % cardinality($1::int[])], 'Export ' || n, $2, $3, e.sealed, 'week',
            jsonb_build_object('cadences', '[{"since":null,"cadence":{"interval":"week","timezone":"UTC","offsetDay":0,"offsetHour":0}}]'::jsonb,
              'gates', jsonb_build_array(jsonb_build_object('since', $4::bigint - $5::bigint, 'pausedSince', null, 'startAt', null, 'endAt', null)),
              'openIntervalStart', $4::bigint - $5::bigint, 'nextTickAt', $4::bigint), to_timestamp($4::bigint / 1000.0)
       from unnest($6::uuid[], $7::bytea[]) with ordinality as e (id, sealed, n)`,
    [teams, kind, JSON.stringify(kind === 'S3' ? configOf : {}), dueAt, week, ids, sealed],
  );
  await pool.query('vacuum analyze batch_exports');
  return untilDue(dueAt);
}

/** Makes the same exports due once more, for the rows since then. @returns that instant */
async function makeDueAgain(
  before: number,
  count: number,
  teams: readonly number[],
): Promise<number> {
  await pool.query(
    `insert into events (uuid, team_id, event, distinct_id, properties, timestamp, created_at, inserted_at)
     select gen_random_uuid(), team, 'event', 'user ' || n, '{}', at, at, at
       from unnest($1::int[]) team, generate_series(1, 100) n, lateral (select to_timestamp($2::bigint / 1000.0) + n * interval '1 ms' as at) t`,
    [teams, before],
  );
  await pool.query('vacuum analyze events, runs, outbox, receipts');
  const dueAt = Math.ceil((await readNow()) / 1_000 + 5 + count / 2_000) * 1_000;
  await pool.query(
    `update batch_exports set next_tick_at = to_timestamp($2::bigint / 1000.0),
            schedule = schedule || jsonb_build_object('openIntervalStart', $1::bigint, 'nextTickAt', $2::bigint)`,
    [before, dueAt],
  );
  return untilDue(dueAt);
}

async function untilDue(dueAt: number): Promise<number> {
  const ahead = dueAt - (await readNow());
  if (ahead < 0) throw new Error(`making the exports took ${-ahead} ms too long`);
  await sleep(ahead);
  return dueAt;
}

/** Waits until all runs have ended, or the time is up. Counts them only then: that would take a tenth of the database's time. */
async function untilDone(dueAt: number, count: number) {
  for (;;) {
    await sleep(250);
    const isLate = (await readNow()) - dueAt > Number(values.seconds) * 1_000;
    const waiting = await pool.query('select from outbox limit 1');
    if (waiting.rowCount !== 0 && !isLate) continue;
    const { rows } = await pool.query<{ completed: number; ended: number; made: number }>(
      `select (count(*) filter (where status = 'Completed'))::int as completed,
              coalesce(extract(epoch from max(finished_at)) * 1000, 0)::float8 as ended,
              coalesce(extract(epoch from max(created_at)) * 1000, 0)::float8 as made
         from runs where data_interval_end = to_timestamp($1::bigint / 1000.0)`,
      [dueAt],
    );
    const { completed = 0, ended = 0, made = 0 } = rows[0] ?? {};
    if (completed >= count || isLate) {
      return {
        completed,
        seconds: (ended - dueAt) / 1_000,
        tickSeconds: (made - dueAt) / 1_000,
      };
    }
  }
}

async function readNow(): Promise<number> {
  const { rows } = await pool.query<{ now: string }>(
    `select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now`,
  );
  return Number(rows[0]?.now);
}

/** When the store had the first object of each export that was due at this instant, in milliseconds after it. */
async function firstObjects(control: string, dueAt: number): Promise<readonly number[]> {
  const answer = await fetch(`${control}/writes?bucket=exports`);
  const writes = (await answer.json()) as readonly Pick<ObjectWrite, 'at' | 'key'>[];
  const first = new Map<string, number>();
  for (const { at, key } of writes) {
    const [id = ''] = key.split('/');
    if (at >= dueAt && !first.has(id)) first.set(id, at - dueAt);
  }
  return [...first.values()];
}
