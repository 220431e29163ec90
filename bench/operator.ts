import { execFile, fork } from 'node:child_process';
import { Console } from 'node:console';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { startEmbeddedPostgres } from '../src/state/embedded-postgres/start.ts';
import { openDatabase } from '../src/state/store/database/database.ts';
import { createKey } from '../test/support/tenants.ts';
import type { ServerOrder } from './api-server.ts';
import { percentilesOf } from './service/api-times.ts';
import { cpuSeconds } from './service/processes.ts';

/**
 * What the view over all customers costs: 5,300 exports of 53 organizations with ten runs each, and 501 causes that hold up 1,100
 * of them with 4,400 intervals without data. Requests of one operator, one after the other, to an API of its own process. The bar
 * is 200 ms for each. CPU is that of the API and PostgreSQL for one request.
 *
 *   npm run bench:operator -- [--rounds 20] [--exports-per-project 50]
 */
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '20' },
    'exports-per-project': { type: 'string', default: '50' },
  },
});
const rounds = Number(values.rounds);
const perProject = Number(values['exports-per-project']);
const bar = 200;

/** Parameters: exports of a project. */
const fill = [
  `delete from organizations`,
  `insert into organizations (name) select 'Customer ' || n from generate_series(1, 53) n`,
  `insert into projects (organization_id, name) select id, name || ' ' || n from organizations, unnest(array['Web', 'App']) n`,
  `insert into batch_exports (team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at, high_water_mark, last_success_at)
   select p.id, 'Export ' || n, 'S3', jsonb_build_object('bucket_name', 'bucket-' || p.id), 'hour', s.schedule, at + interval '1 h', at, now()
     from projects p, generate_series(1, $1::int) n,
          (select date_trunc('hour', now()) as at, (extract(epoch from date_trunc('hour', now())) * 1000)::bigint as ms) h,
          lateral (select jsonb_build_object('cadences', '[{"since":null,"cadence":{"interval":"hour","timezone":"UTC","offsetDay":null,"offsetHour":null}}]'::jsonb,
             'gates', jsonb_build_array(jsonb_build_object('since', ms - 3600000, 'pausedSince', null, 'startAt', null, 'endAt', null)),
             'openIntervalStart', ms, 'nextTickAt', ms + 3600000) as schedule) s`,
  // The first 1,100: 300 fail for themselves, 400 share 200 places in pairs, 400 share the source.
  `create table numbered as select e.id, p.organization_id, row_number() over (order by e.team_id, e.id) as n
     from batch_exports e join projects p on p.id = e.team_id order by n limit 1100`,
  `update batch_exports e set failing_since = now() - n * interval '1 minute', failing_error = 'the newest error of it',
          failing_code = case when n <= 300 then 'query.invalid' when n <= 700 then 'destination.bucket_not_found' else 'source.unavailable' end,
          destination_config = e.destination_config || case when n between 301 and 700 then jsonb_build_object('bucket_name', 'place ' || (n - 1) / 2) else '{}' end
     from numbered x where e.id = x.id`,
  `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at, error_code, latest_error)
   select e.id, e.team_id, case when x.id is not null and ago <= 4 then 'Failed' else 'Completed' end, at, at + interval '1 h', now(),
          case when x.id is not null and ago <= 4 then e.failing_code end, case when x.id is not null and ago <= 4 then e.failing_error end
     from batch_exports e left join numbered x on x.id = e.id, generate_series(1, 10) ago,
          lateral (select date_trunc('hour', now()) - ago * interval '1 h' as at) h`,
  `update holes h set heals_since = now(), next_try_at = now() + interval '1 h' from numbered x where x.id = h.export_id`,
];

const folder = await mkdtemp(path.join(tmpdir(), 'sluice-bench-'));
const postgres = await startEmbeddedPostgres({ dataDir: folder });
const db = openDatabase({
  connectionString: postgres.url,
  applicationName: 'bench-operator',
  maxConnections: 2,
  onError: () => {},
});
try {
  const env = { ...process.env, DATABASE_URL: postgres.url };
  await promisify(execFile)(process.execPath, ['dist/clients/cli/sluice.js', 'migrate'], { env });
  for (const [n, statement] of fill.entries())
    await db.query(statement, n === 3 ? [perProject] : []);
  await db.query('drop table numbered');
  await db.query('vacuum analyze');
  const { key } = await createKey(db, { organizationId: null });
  const server = fork(fileURLToPath(new URL('api-server.js', import.meta.url)), {
    serialization: 'advanced',
  });
  const order: ServerOrder = { databaseUrl: postgres.url, bare: null };
  server.send(order);
  const [url] = (await once(server, 'message')) as [string];
  const ask = async (at: string) => {
    const answer = await fetch(`${url}/api/admin${at}`, {
      headers: { authorization: `Bearer ${key}` },
    });
    if (answer.status !== 200) throw new Error(`${at}: HTTP ${answer.status}`);
    return (await answer.json()) as { count: number; results: { id: string }[] };
  };
  const [postmaster] = await db.query<{ pid: string }>(
    `select split_part(pg_read_file('postmaster.pid'), E'\\n', 1) as pid`,
  );
  /** Seconds that the API and PostgreSQL have computed: also true if the machine does something else. */
  const cpu = async () =>
    (await cpuSeconds(server.pid ?? 0)) + (await cpuSeconds(Number(postmaster?.pid)));
  const [cause] = (await ask('/causes?limit=1')).results;
  const paths = [
    '/causes?limit=50',
    '/causes?limit=50&offset=450',
    '/causes?limit=50&search=customer%2012',
    '/causes?limit=50&search=no+such+customer',
    '/causes?limit=50&turn=source',
    '/exports?limit=50',
    '/exports?limit=50&offset=5000',
    '/exports?limit=1000',
    '/exports?limit=50&search=customer%2012',
    '/exports?limit=50&health=failing',
    `/exports?limit=50&cause_id=${cause?.id}`,
  ];
  const table: Record<string, object> = {};
  let slowest = 0;
  for (const at of paths) {
    const { count } = await ask(at);
    const times: number[] = [];
    const cpuBefore = await cpu();
    for (let round = 0; round < rounds; round += 1) {
      const begun = performance.now();
      await ask(at);
      times.push(performance.now() - begun);
    }
    const spent = (1_000 * ((await cpu()) - cpuBefore)) / rounds;
    const percentile = percentilesOf(times);
    slowest = Math.max(slowest, percentile(0.95));
    const shown = at.replace(/cause_id=.*/, 'cause_id=…');
    table[shown] = {
      count,
      'p50 ms': percentile(0.5),
      'p95 ms': percentile(0.95),
      'max ms': percentile(1),
      'CPU ms': Math.round(spent),
    };
  }
  const out = new Console(process.stdout);
  const load = loadavg()[0]?.toFixed(2);
  out.log(`${availableParallelism()} cores, load average ${load}, Node ${process.version}`);
  out.table(table);
  process.exitCode = slowest <= bar ? 0 : 1;
  server.send('close');
  await once(server, 'exit');
} finally {
  await db.close();
  await postgres.stop();
  await rm(folder, { recursive: true, force: true });
}
