import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { startSluice, type TestProcess } from '../../support/processes.ts';
import { until } from '../../support/until.ts';
import { folderOfTests } from '../../support/own-folder.ts';

const dataDir = folderOfTests();

const folder = () => path.join(dataDir, 'postgres');
const inFolder = () => (existsSync(folder()) ? readdirSync(folder()) : []);

function start(): TestProcess {
  const outside = { DATABASE_URL: undefined, SOURCE_DATABASE_URL: undefined, REDIS_URL: undefined };
  const env = { ...outside, PORT: '0', WORKER_PORT: '0', SLUICE_DATA_DIR: dataDir };
  return startSluice('main/all-in-one.js', [], { env });
}

/** PostgreSQL works in its data directory; initdb names it. */
function processesOfFolder(): readonly string[] {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      return readlinkSync(`/proc/${pid}/cwd`).startsWith(dataDir) || command.includes(dataDir);
    } catch {
      return false;
    }
  });
}

function expectNothingLeft(): void {
  expect(processesOfFolder()).toEqual([]);
  expect(inFolder().filter((name) => name.startsWith('init-'))).toEqual([]);
  expect(existsSync(path.join(folder(), 'data', 'postmaster.pid'))).toBe(false);
}

const isMakingData = () => inFolder().some((name) => name.startsWith('init-'));
const isStarting = () => existsSync(path.join(folder(), 'data', 'postmaster.pid'));
const hasStarted = (started: TestProcess) => started.output().includes('PostgreSQL started');

type Moment = readonly [string, (started: TestProcess) => boolean, (started: TestProcess) => void];

/** Without a data directory, if the moment is while it is made: an ended start may have made it. */
async function prepare(is: Moment[1]): Promise<void> {
  if (is === isMakingData) await rm(folder(), { recursive: true, force: true });
}

const ctrlC = ({ pid }: TestProcess) => void process.kill(-pid, 'SIGINT');
const terminate = (started: TestProcess) => started.kill('SIGTERM');

test.each<Moment>([
  ['Ctrl-C, while the data directory is made', isMakingData, ctrlC],
  ['when PostgreSQL has started', hasStarted, terminate],
  ['at once', () => true, terminate],
  ['while the data directory is made', isMakingData, terminate],
  ['while PostgreSQL starts', isStarting, terminate],
])('a start that is ended leaves no PostgreSQL behind: %s', async (_, is, end) => {
  await prepare(is);
  const started = start();
  await until(() => is(started), { message: () => started.output() });
  end(started);
  await started.waitForExit();
  expectNothingLeft();
});

test('the next start works, and leaves nothing either', async () => {
  const started = start();
  await started.waitForLine(/^ready /);
  terminate(started);
  expect(await started.waitForExit()).toEqual({ code: 0, signal: null });
  expectNothingLeft();
});
