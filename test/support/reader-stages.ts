import { spawn } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'vitest';
import { DeliveryHistory, type Interval, type Row } from './delivery-history.ts';

type Three = readonly [Interval, Interval, Interval];

/** What happens to an export from one statement to the next. */
const stages: Readonly<Record<string, (history: DeliveryHistory, intervals: Three) => void>> = {
  'late rows, and an empty interval': (history, [first]) => {
    history.supplement(first, 2);
    history.skip('empty');
  },
  'an interval that is made again': (history, [, second]) => history.remake(second, 1),
  'a person that is erased': (history, [first, second]) => {
    history.erase(first, 'p1');
    history.erase(second, 'p1');
  },
  'rows that a person removed, and an interval that was open': (history, [, second, open]) => {
    history.remove(second, 1);
    history.redeliver(open, 2);
  },
  'another key, and many changes of one interval': (history, [first]) => {
    history.addKey('next');
    history.supplement(first, 1);
    history.remake(first, 0);
    history.supplement(first, 1);
  },
  'another place': (history, [first]) => {
    history.move('moved');
    history.moveInterval(first);
  },
  'a chain that begins again': (history) => {
    history.beginChain('restored');
    history.deliver(1);
  },
};

/** Steps of the examples at which a process is killed. */
const steps = ['begin', 'cursor', 'commit', 'file', 'row', 'removed', 'committed'];

export interface Example {
  /** `postgres.mjs` or `duckdb.mjs`. */
  readonly name: string;
  readonly target: string;
  readonly rows: () => Promise<readonly Row[]>;
}

/** Kills the example at each step of each stage, and runs it again. Then each row must be in the target once. */
export async function expectEachRowOnce(folder: string, { name, target, rows }: Example) {
  const history = new DeliveryHistory({ format: 'jsonl.gz' });
  const key = history.newestKey().fingerprint;
  const run = async (...more: string[]) => {
    await writeBucket(folder, history);
    const { prefix } = history;
    return runExample(name, [
      '--bucket',
      folder,
      '--prefix',
      prefix,
      '--key',
      key,
      '--target',
      target,
      ...more,
    ]);
  };
  const all = () => history.rows().sort((one, other) => one.id - other.id);
  const intervals: Three = [history.deliver(2, 1), history.deliver(3), history.skip('open')];
  history.state();
  await run();
  expect(await rows()).toEqual(all());
  const reached = new Set<string>();
  for (const [stage, happen] of Object.entries(stages)) {
    happen(history, intervals);
    const before = await rows();
    // Nothing that has no statement yet is loaded.
    await run();
    expect([stage, await rows()]).toEqual([stage, before]);
    history.state();
    let isLoaded = false;
    for (const step of steps) {
      const end = await run('--stop-at', step);
      if (end === 'SIGKILL') reached.add(step);
      isLoaded ||= end === 'done' || step === 'committed';
      expect([stage, step, await rows()]).toEqual([stage, step, isLoaded ? all() : before]);
    }
    await run();
    expect([stage, await rows()]).toEqual([stage, all()]);
  }
  expect([...reached].sort()).toEqual([...steps].sort());
}

async function writeBucket(folder: string, { objects }: DeliveryHistory): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  for (const [key, bytes] of objects) {
    const file = path.join(folder, key);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, bytes);
  }
}

const examples = path.resolve(import.meta.dirname, '../../client/reader/examples');

/** Ends with code 0, or by the signal of a failpoint. */
function runExample(name: string, args: readonly string[]): Promise<'done' | 'SIGKILL'> {
  const child = spawn(process.execPath, [path.join(examples, name), ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let errors = '';
  child.stderr.on('data', (text) => {
    errors += text;
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0) resolve('done');
      else if (signal === 'SIGKILL') resolve(signal);
      else reject(new Error(`${name} ended with ${code ?? signal}: ${errors}`));
    });
  });
}
