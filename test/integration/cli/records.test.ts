import { beforeAll, expect, test } from 'vitest';
import { ensureEventsTable } from '../../../src/rows/sources/index.ts';
import { useApi } from '../../support/api-under-test.ts';
import { cliEnv, type CliOptions, runCli } from '../../support/cli.ts';
import { firstByDay } from '../../support/nightly.ts';
import { createKey } from '../../support/tenants.ts';
import { until } from '../../support/until.ts';
import { execFile, spawnSync } from 'node:child_process';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { projectRoot } from '../../support/processes.ts';

let env: Record<string, string>;

const api = useApi();
beforeAll(async () => {
  await ensureEventsTable(api.databaseUrl);
  env = cliEnv(api);
});

const sluice = (args: readonly string[], changes: Partial<CliOptions> = {}) =>
  runCli(args, { env, ...changes });

const create = async (changes = {}) => (await api.create(changes)).id;

test('a range is a span that ends now, or plain times, which are UTC', async () => {
  const id = await create({ name: 'Plain times' });
  const plan = async (...range: string[]) =>
    JSON.parse((await sluice(['backfill', id, ...range, '--dry-run', '--json'])).out);
  expect(await plan('--from', '2024-03-01', '--to', '2024-03-01T06:00')).toMatchObject({
    start_at: '2024-03-01T00:00:00.000000Z',
    end_at: '2024-03-01T06:00:00.000000Z',
    total_runs: 6,
  });
  const { start_at: start, end_at: end, total_runs: runs } = await plan('--last', '6h');
  // It is widened to whole intervals.
  expect([6, 7]).toContain(runs);
  for (const both of [
    ['--last', '6h', '--from', '2024-03-01'],
    ['--last', '6h', '--to', '2024-03-01'],
  ]) {
    const refused = await sluice(['backfill', id, ...both, '--dry-run']);
    expect([refused.code, refused.err]).toEqual([2, expect.stringContaining('not both')]);
  }
  expect(Date.parse(end) - Date.parse(start)).toBe(runs * 3_600_000);
  // A log since a span or a time, and with a text.
  const log = (message: string, minutes: number) =>
    api.sql`insert into log_entries (team_id, export_id, level, message, timestamp)
       values (${api.teamId}, ${id}, 'INFO', ${message}, now() - ${minutes} * interval '1 minute')`;
  await log('an old one', 200);
  await log('a new one', 50);
  const logs = async (...filter: string[]) => (await sluice(['logs', id, ...filter])).out;
  expect(await logs('--since', '90m')).toMatch(/^.*a new one\n$/);
  expect(await logs('--since', '2024-03-01', '--search', 'OLD')).toMatch(/^.*an old one\n$/);
  expect((await sluice(['logs', id, '--since', 'soon'])).err).toMatch(
    /^--since: soon is not a time\./,
  );
});

test('coverage lists stretches of one state, accepts them, and changes say who did it', async () => {
  const id = await create({ name: 'Covered' });
  await api.sql`insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at)
     select ${id}, ${api.teamId}, 'Failed', at, at + interval '1 hour', now() from generate_series(0, 1) n,
            lateral (select timestamptz '2024-03-01' + n * interval '1 hour' as at) t`;
  const range = ['--from', '2024-03-01', '--to', '2024-03-01T04:00'];
  const listed = await sluice(['coverage', 'list', 'Covered', ...range]);
  expect(listed.out).toMatch(/^failed +2024-03-01T00:00:00Z +2024-03-01T02:00:00Z +2$/m);
  expect(listed.out).toMatch(/^never asked +2024-03-01T02:00:00Z +2024-03-01T04:00:00Z +2$/m);
  const accept = ['coverage', 'accept', id, ...range, '--reason', 'no data then'];
  expect((await sluice(accept, { answer: 'n' })).code).toBe(1);
  expect((await sluice([...accept, '--yes'])).out).toMatch(/^2 intervals accepted\./);
  expect((await sluice(['coverage', 'list', id, ...range])).out).toMatch(/^accepted .* 2$/m);
  // Of a destination only what differs is shown.
  const update = ['exports', 'update', id, '--set', 'destination.config.prefix=other'];
  expect((await sluice(update)).err).toBe('');
  const changes = (await sluice(['changes', id])).out;
  expect(changes).toMatch(/ updated +destination\.config\.prefix: \S+ → other$/m);
  expect(changes).toMatch(/^TIME +BY +ACTION +CHANGE$/m);
  expect(changes).toContain('no data then');
});

test('status shows the newest snapshot, not an older one that was made again or one that is removed', async () => {
  const id = await create({ name: 'Nightly' });
  await api.sql`update batch_exports set mode = 'snapshot' where id = ${id}`;
  await api.sql`
    insert into runs (export_id, team_id, status, purpose, data_interval_start, data_interval_end, created_at,
      finished_at)
     select ${id}, ${api.teamId}, 'Completed', purpose, at, at + interval '1 hour', now() + n * interval '1 s', now()
       from (values (1, 'whole', timestamptz '2024-03-01T05:00Z'), (2, 'whole', '2024-03-01T02:00Z'),
                    (3, 'expire', '2024-03-01T07:00Z')) as v (n, purpose, at)`;
  expect((await sluice(['status'])).out).toMatch(/Nightly: snapshot, up to 2024-03-01T06:00:00Z$/m);
});

test('an unpause of an export that is not paused says that it changed nothing, and how to retry what is lost', async () => {
  const id = await create({ name: 'Runs' });
  await api.sql`insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at)
     values (${id}, ${api.teamId}, 'Failed', '2024-03-01', '2024-03-01 01:00', now())`;
  const { code, out } = await sluice(['exports', 'unpause', id, '--retry-missing']);
  expect([code, out]).toEqual([
    0,
    '"Runs" was not paused: nothing was changed.\n' +
      '1 requested interval without data since 2024-03-01T00:00:00Z. Export them: `sluice backfill "Runs" --from 2024-03-01T00:00:00Z --reprocess missing`\n',
  ]);
  await sluice(['exports', 'pause', id]);
  expect((await sluice(['exports', 'unpause', id, '--retry-missing'])).out).toMatch(
    /^Unpaused "Runs"\. .*\n1 run in backfill [\w-]{36}\.\n$/,
  );
});

test('transformations are listed, made, changed and deleted with a key of one project', async () => {
  const { key } = await createKey(api.db, {
    organizationId: api.tenant.organizationId,
    projectIds: [api.teamId],
  });
  const own = { ...env, SLUICE_KEY: key };
  const transformations = (...args: string[]) => sluice(['transformations', ...args], { env: own });
  expect((await transformations('plugins')).out).toMatch(/ Hash properties +properties\*?, /);
  const settings = ['Hash properties', '--set', 'properties=email', '--set', `salt=\${SALT}`];
  const unsaid = await transformations('create', ...settings);
  expect(unsaid.code).toBe(2);
  expect(unsaid.err).toContain('--enabled or --disabled');
  const named = [...settings, '--name', 'Mask', '--enabled'];
  expect((await transformations('create', ...named)).err).toContain(
    'the environment variable SALT is not set',
  );
  const made = await sluice(['transformations', 'create', ...named], {
    env: { ...own, SALT: 'canary-salt' },
  });
  expect(made.out).toMatch(/^Created step \d+, enabled\. No export applies the chain\./);
  const [, step = ''] = /step (\d+)/.exec(made.out) ?? [];
  const id = await create({ name: 'Masked', transformations: true });
  const listed = await transformations('list');
  expect(listed.out).toMatch(/^ *\d+ +Mask +Hash properties +enabled$/m);
  expect(listed.out).toMatch(/^Applied by 1 of \d+ exports: "Masked"\.$/m);
  expect((await transformations('list', '--json')).out).not.toContain('canary');
  expect((await sluice(['export'], { env: own })).out).toContain('plugin: Hash properties');
  expect((await transformations('update', step, '--disabled')).out).toBe(
    `Changed step ${step}, disabled: it changes no rows.\n`,
  );
  expect((await transformations('delete', step, '--yes')).out).toBe(`Deleted step ${step}.\n`);
  expect((await transformations('list')).out).not.toContain('Mask ');
  for (const verb of [
    ['update', step, '--enabled'],
    ['delete', step, '--yes'],
  ]) {
    const gone = await transformations(...verb);
    expect([gone.code, gone.err]).toEqual([1, expect.stringContaining(`no step ${step}.`)]);
  }
  await api.delete(`${api.exports}/${id}`);
});

test('a backfill that stopped itself says why, and not that all of it is done', async () => {
  const id = await create({ name: 'Stops' });
  const waiting = sluice(['backfill', id, '--last', '3h']);
  const stop = () => api.sql`
    update backfills set status = 'Cancelled', stopped_reason = 'destination.bucket_not_found: gone.',
      finished_at = now()
      where export_id = ${id} and status = 'Running' returning 1`;
  await until(async () => (await stop()).length > 0);
  const { code, err, output } = await waiting;
  expect(code).toBe(1);
  expect(err).toContain('stopped itself, because its runs failed in a row. destination.bucket');
  expect(output).not.toContain('100%');
});

const run = promisify(execFile);
const program = path.join(projectRoot, 'dist/clients/cli/sluice.js');

/** Prints the address of each module that is loaded, one per line. */
const printModules = `import { register } from 'node:module';
  register('data:text/javascript,' + encodeURIComponent(\`
    export async function load(url, context, next) {
      process._rawDebug(url);
      return next(url, context);
    }\`));`;

test.each(
  firstByDay<readonly [readonly string[], string]>(1, [
    [['exports', '--help'], 'create an export'],
    [['--help'], 'Over the API'],
    [['backfill', '--help'], '--dry-run'],
    [['help', 'verify'], '--export'],
    [['--version'], '.'],
  ]),
)('%j loads no module that a command needs', async (args, text) => {
  // Each of them takes longer to load than everything else together.
  const hook = `data:text/javascript,${encodeURIComponent(printModules)}`;
  const { stdout, stderr } = await run(process.execPath, ['--import', hook, program, ...args]);
  expect(stdout).toContain(text);
  const modules = stderr.split('\n').filter((url) => url.startsWith('file:'));
  expect(modules.length).toBeGreaterThan(10);
  expect(modules.length).toBeLessThan(60);
  expect(modules.filter((url) => /\/node_modules\/(?!commander\/)/.test(url))).toEqual([]);
  const ours = modules.filter((url) => /\/dist\/(store|main|use-cases)\//.test(url));
  expect(ours.map((url) => path.basename(url))).toEqual(['load-program.js']);
});

test.skipIf(process.platform !== 'linux').each(firstByDay(1, ['EMFILE', 'ERR_MODULE_NOT_FOUND']))(
  'a start with too few files ends with one line, also if Node says %s',
  (code) => {
    const load = pathToFileURL(path.join(path.dirname(program), '../../main/load-program.js'));
    const start = `const { loadProgram } = await import('${load}');
      await loadProgram(() => Promise.reject(Object.assign(new Error('Cannot find package'), { code: '${code}' })));`;
    const limited = `ulimit -n 200; exec "$0" --input-type=module -e "$1"`;
    const args = ['-c', limited, process.execPath, start];
    const { status, stderr } = spawnSync('sh', args, { encoding: 'utf8' });
    expect([status, stderr.trim().split('\n')]).toEqual([
      1,
      [expect.stringMatching(/^sluice: this process may open too few files .* ulimit -n 1024/)],
    ]);
  },
);

test('the program itself calls the API, and prints what it finds', async () => {
  const { stdout } = await run(process.execPath, [program, 'exports', 'list', '--json'], {
    env: { ...process.env, ...env },
  });
  expect(JSON.parse(stdout)).toHaveLength((await api.get(api.exports)).body.count);
});
