import { execFileSync, spawnSync } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createApiClient } from '../support/api-client.ts';
import { folderOfTest, folderOfTests } from '../support/own-folder.ts';
import { hasPrograms, runCommands } from '../support/page-commands.ts';
import { projectRoot, startBundled, startProcess, startSluice } from '../support/processes.ts';
import { until } from '../support/until.ts';

/** `script` of util-linux runs a program on a terminal of its own; other makes take other options. */
const terminal =
  spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux') ?? false;
if (!terminal) console.log('The quickstart on a terminal is skipped: no `script` of util-linux.');

const curl = hasPrograms('curl');
if (!curl) console.log("The README's calls are skipped: no curl.");
const jq = hasPrograms('jq');
if (!jq) console.log("The README's commands are skipped: no jq.");

const dataDir = folderOfTests();
const env: Readonly<Record<string, string | undefined>> = {
  SLUICE_DATA_DIR: dataDir,
  PORT: '0',
  DATABASE_URL: undefined,
  SOURCE_DATABASE_URL: undefined,
  REDIS_URL: undefined,
  ALLOWED_PRIVATE_ENDPOINTS: undefined,
};
/** The address of its S3, as the first quickstart printed it. */
let printedS3 = '';

/** `.ci/run` starts one with all its rows, by day. */
const quickstart = ['quickstart', '--exit', '--rows', '20000'];

/** A client of the service at the address that it printed, with the quickstart's key. */
async function clientOf(readyLine: string) {
  const text = await readFile(path.join(dataDir, 'quickstart.json'), 'utf8');
  const { key, projectId } = JSON.parse(text) as { key: string; projectId: number };
  const client = createApiClient(readyLine.replace('ready ', ''), key);
  return { client, key, exports: `/api/projects/${projectId}/batch_exports` };
}

/** The address in `S3  http://…  (bucket sluice-quickstart, access key quickstart, secret key quickstart)`. */
function s3In(output: string): string {
  const keys = 'bucket sluice-quickstart, access key quickstart, secret key quickstart';
  expect(output).toContain(keys);
  return /S3\s+(http:\/\/\S+)/.exec(output)?.[1] ?? '';
}

/** Makes the README's calls by curl, as the shell passes them. @returns the id of the export */
async function makeReadmeCalls(address: string, key: string): Promise<string> {
  const readme = await readFile(path.join(projectRoot, 'docs/quickstart.md'), 'utf8');
  const blocks = [...readme.matchAll(/```sh\n((?:KEY|hours_ago)[\s\S]*?)```/g)];
  expect(blocks).toHaveLength(2);
  let id = '';
  for (const [, block = ''] of blocks) {
    const script = block
      .replaceAll('http://127.0.0.1:8000', address)
      .replaceAll(/^curl /gm, 'curl -sS --fail-with-body ');
    const output = execFileSync('sh', ['-ec', script], {
      env: { ...process.env, KEY: key, S3: printedS3, ID: id },
      encoding: 'utf8',
    });
    id ||= String(JSON.parse(output).id);
  }
  return id;
}

/** Runs the page's block of the command line, on the installation of the quickstart, as a person would. */
async function runReadmeCommands(address: string, key: string): Promise<string> {
  const readme = await readFile(path.join(projectRoot, 'docs/quickstart.md'), 'utf8');
  const [, script = ''] = /```sh\n(export SLUICE_URL[\s\S]*?)```/.exec(readme) ?? [];
  const cwd = folderOfTest();
  const commands = script
    .replaceAll('npx sluice', 'sluice')
    .replaceAll('http://127.0.0.1:8000', address);
  const { code, output } = await runCommands(commands, {
    cwd,
    env: { ...env, KEY: key },
    bin: cwd,
  });
  expect(code, output).toBe(0);
  return output;
}

test('one that is killed within its backfill is continued by the next', async () => {
  const killed = startBundled('clients/cli/sluice.js', quickstart, { env });
  await killed.waitForLine(/^Backfilling 24 hours/, 90_000);
  const files = () => readdir(dataDir, { recursive: true }).catch(() => []);
  // Its S3 names the file of an object by a digest of the key.
  await until(async () => (await files()).some((name) => /(^|\/)[0-9a-f]{64}$/.test(name)));
  killed.kill('SIGKILL');
  await killed.waitForExit();
});

test.runIf(terminal)('the first shows its progress on a terminal and proves its rows', async () => {
  const program = path.join(projectRoot, 'dist/clients/cli/sluice.js');
  const command = [process.execPath, program, ...quickstart].join(' ');
  const child = startProcess('script', ['-qec', command, '/dev/null'], { env });
  const { code } = await child.waitForExit(280_000);
  const output = child.output();
  expect(code, output).toBe(0);
  expect(output).toMatch(/█{30} 100% {2}24 of 24 runs/);
  expect(output).not.toMatch(/NaN|undefined|0 of 0 runs|DeprecationWarning/);
  // An escape in place of the end of a line.
  expect(output).not.toContain('\\u000a');
  expect(output).toMatch(/proven: 20,000 rows/);
  printedS3 = s3In(output);
});

test.skipIf(terminal)('the first proves its rows', async () => {
  const child = startSluice('clients/cli/sluice.js', quickstart, { env });
  expect((await child.waitForExit(280_000)).code, child.output()).toBe(0);
  printedS3 = s3In(child.output());
});

test('the service goes on with the exports that the quickstart made, and lets no second one in', async () => {
  const service = startBundled('main/all-in-one.js', [], { env });
  // Killed at the end, not stopped: the next start finds every object anyway.
  onTestFinished(async () => {
    service.kill('SIGKILL');
    await service.waitForExit();
  });
  const ready = await service.waitForLine(/^ready /);
  const others = [
    startBundled('main/all-in-one.js', [], { env }),
    startBundled('clients/cli/sluice.js', quickstart, { env }),
  ];
  for (const other of others) {
    expect((await other.waitForExit()).code, other.output()).toBe(1);
    const said = other.output().trim().split('\n');
    expect(said.filter((line) => !line.startsWith('{'))).toEqual([
      expect.stringContaining(`already running at ${ready.replace('ready ', '')}`),
    ]);
  }
  const { client, key, exports } = await clientOf(ready);
  const listed = (await client.get(exports)).body.results as readonly { id: string }[];
  expect(listed.length).toBeGreaterThan(0);
  for (const { id } of listed) {
    const runsPath = `${exports}/${id}/runs`;
    const { body: earlier } = await client.get(`${runsPath}?status=Completed&limit=1`);
    const again = await client.post(`${runsPath}/${earlier.results[0]?.id}/retry`);
    expect(again.status).toBe(201);
    const run = await until(
      async () => {
        const { body } = await client.get(`${runsPath}/${again.body.id}`);
        return body.finished_at === null ? null : body;
      },
      { message: 'the run ends' },
    );
    expect([run.status, run.latest_error]).toEqual(['Completed', null]);
    expect((await client.get(`${exports}/${id}`)).body).toMatchObject({
      paused: false,
      paused_reason: null,
    });
  }
  if (curl) {
    const id = await makeReadmeCalls(ready.replace('ready ', ''), key);
    await until(
      async () =>
        (await client.get(`${exports}/${id}/backfills`)).body.results[0]?.status === 'Completed',
      { everyMs: 500, message: "the README's backfill ends" },
    );
    const runs = (await client.get(`${exports}/${id}/runs`)).body.results;
    // A range of three hours, widened to whole hours.
    expect([3, 4]).toContain(runs.length);
    expect(runs.map(({ status, latest_error }) => [status, latest_error])).toEqual(
      runs.map(() => ['Completed', null]),
    );
    // The last hour may have begun a moment ago, and have no rows.
    const counts = runs.map(({ records_completed: rows }) => Number(rows));
    expect(Math.max(...counts)).toBeGreaterThan(0);
    if (jq) {
      const output = await runReadmeCommands(ready.replace('ready ', ''), key);
      expect(output).toMatch(
        /^Backfill .*: Completed, 6 of 6 runs done, [\d,]+ rows?, [\d,]+ bytes\./m,
      );
    }
  }
  const verify = startBundled('clients/cli/sluice.js', ['verify'], { env });
  expect((await verify.waitForExit()).code, verify.output()).toBe(0);
});

test('the quickstart proves its rows again, though the service was killed', async () => {
  const child = startBundled('clients/cli/sluice.js', quickstart, { env });
  expect((await child.waitForExit(280_000)).code, child.output()).toBe(0);
  expect(child.output()).toMatch(/proven: 20,000 rows/);
  expect(child.output()).not.toMatch(/Creating an|Backfilling/);
});
