import { execFile, spawnSync } from 'node:child_process';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { useApi } from '../../support/api-under-test.ts';
import { cliEnv, type CliOptions, runCli } from '../../support/cli.ts';
import { projectRoot } from '../../support/processes.ts';
import { createKey } from '../../support/tenants.ts';
import { until } from '../../support/until.ts';

const run = promisify(execFile);
const program = path.join(projectRoot, 'dist/clients/cli/sluice.js');
let env: Record<string, string>;

const api = useApi();
beforeAll(async () => {
  env = cliEnv(api);
});

/** What `logs -f` of an export shows, and waits for it to show a text. */
function follow(id: string, options: Partial<CliOptions> = {}) {
  let shown = '';
  const onOutput = (text: string) => (shown += text);
  const ended = runCli(['logs', id, '-f'], { env, onOutput, ...options });
  const has = (text: string, times = 1) =>
    until(() => shown.split(text).length > times, { message: () => `${text} in ${shown}` });
  return { ended, has, shown: () => shown };
}

test('logs -f prints each entry once, also one that becomes visible after a newer one', async () => {
  const body = await api.create();
  const log = (message: string, agoMs = 0) =>
    api.sql`insert into log_entries (team_id, export_id, level, message, timestamp)
       values (${api.teamId}, ${body.id}, 'INFO', ${message}, now() - ${agoMs} * interval '1 ms')`;
  await log('first', 5_000);
  await log('second', 4_000);
  const stop = new AbortController();
  const { ended, has, shown } = follow(body.id, { signal: stop.signal });
  await has('second');
  await log('newest');
  await has('newest');
  // Of a transaction that took longer; the same text twice is two entries.
  await log('belated', 2_000);
  await log('newest');
  await has('belated');
  await has('newest', 2);
  stop.abort();
  const { code, err } = await ended;
  expect([code, err]).toEqual([0, '']);
  const messages = shown()
    .trimEnd()
    .split('\n')
    .map((line) => line.split(/ {2,}/).at(-1));
  expect(messages).toEqual(['first', 'second', 'newest', 'belated', 'newest']);
});

test('logs -f ends with one line if the key is revoked', async () => {
  const body = await api.create();
  const { organizationId, projectIds } = api.tenant;
  const { key, apiKey } = await createKey(api.db, { organizationId, projectIds: [projectIds[0]] });
  const log = (message: string) =>
    api.sql`
      insert into log_entries (team_id, export_id, level, message)
        values (${projectIds[0]}, ${body.id}, 'INFO', ${message})`;
  await log('before');
  const { ended, has } = follow(body.id, { env: { ...env, SLUICE_KEY: key } });
  await has('before');
  await api.sql`update api_keys set revoked_at = now() where id = ${apiKey.id}`;
  await log('after');
  const { code, out, err } = await ended;
  expect(code).toBe(4);
  expect(err).toMatch(/^SLUICE_KEY: .*Set SLUICE_KEY to a key of http:.*\n$/);
  expect(out).not.toContain('after');
  await api.delete(`${api.exports}/${body.id}`);
});

/** Prints the address of each module that is loaded, one per line. */
const printModules = `import { register } from 'node:module';
  register('data:text/javascript,' + encodeURIComponent(\`
    export async function load(url, context, next) {
      process._rawDebug(url);
      return next(url, context);
    }\`));`;

test.each([
  [['--help'], 'Over the API'],
  [['exports', '--help'], 'create an export'],
  [['backfill', '--help'], '--dry-run'],
  [['help', 'verify'], '--export'],
  [['--version'], '.'],
])('%j loads no module that a command needs', async (args, text) => {
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

test.skipIf(process.platform !== 'linux').each(['EMFILE', 'ERR_MODULE_NOT_FOUND'])(
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
  expect(JSON.parse(stdout)).toHaveLength(1);
});
