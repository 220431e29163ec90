import { spawn } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'vitest';
import { DeliveryHistory, type Interval, type Row } from './delivery-history.ts';
import { firstByDay, isNightly } from './nightly.ts';

type Three = readonly [Interval, Interval, Interval];
type Stages = Readonly<Record<string, (history: DeliveryHistory, intervals: Three) => void>>;

/** What happens to an export from one statement to the next. */
const stages: Stages = {
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

const rowsIn = (intervals: readonly Interval[]) =>
  intervals.flatMap(({ files }) => files).flatMap(({ rows }) => rows);

/** A mode of exports: what its manifests and rows say, what happens to it, and the rows that count in the end. */
interface Mode {
  readonly stages: Stages;
  prepare(history: DeliveryHistory): void;
  present(history: DeliveryHistory): readonly Row[];
}

const snapshots: Mode = {
  prepare(history) {
    history.alter = (manifest) => ({ ...manifest, mode: 'snapshot', snapshot_at: null });
  },
  present: ({ intervals }) =>
    rowsIn(intervals.filter(({ manifest }) => manifest !== null).slice(-1)),
  stages: {
    'an older one that is removed, and one that is made again': (history, [first, second]) => {
      history.remove(first, 3);
      history.remake(second, 1);
    },
    'a newer one, and one that it has superseded': (history, [, , open]) => {
      history.accept(open);
      history.deliver(2);
    },
    'a newest one without rows': (history) => history.skip('empty'),
  },
};

/** A third of the rows delete. Each key comes again and again, and once in an element. */
const changeOf = ({ id, person }: Row) => ({
  ...{ id: id % 7, person, _sluice_op: id % 3 === 0 ? 'd' : 'u' },
});
const hourOf = (start: unknown) => Number(String(start).slice(11, 13));

/** The fifth element replaces all rows, and has none. */
const changes: Mode = {
  prepare(history) {
    history.describe = changeOf;
    history.alter = (manifest) => {
      const hour = hourOf(manifest.data_interval_start);
      // The numbers between were of attempts that are lost.
      const number = hour * 3;
      const follows = hour === 0 || hour === 4 ? null : number - 3;
      return { ...manifest, mode: 'changes', element: { number, follows, deletes: 0 } };
    };
  },
  present({ intervals }) {
    const rows = new Map<number, Row>();
    for (const interval of intervals) {
      if (hourOf(interval.start) === 4) rows.clear();
      for (const { id, person, _sluice_op: op } of rowsIn([interval]).map(changeOf)) {
        if (op === 'd') rows.delete(id);
        else rows.set(id, { id, person });
      }
    }
    return [...rows.values()].sort((one, other) => one.id - other.id);
  },
  stages: {
    'one that was open, and the next': (history, [, , open]) => {
      history.redeliver(open, 3);
      history.deliver(4);
    },
    'a base without rows': (history) => history.skip('empty'),
    'changes of this base': (history) => history.deliver(2, 3),
  },
};

const append: Mode = { stages, prepare() {}, present: (history) => history.rows() };

export const modes = { append, snapshots, changes };

/** Steps of the examples at which a process is killed. */
const allSteps = ['begin', 'cursor', 'commit', 'interval', 'file', 'row', 'removed', 'committed'];
/** By day snapshots and changes have two of them: how a mode is read decides nothing about the transaction. */
const stepsOf = (mode: Stages) =>
  isNightly || mode === stages ? allSteps : ['commit', 'committed'];
/** By day a stage has the steps that were not reached before it, and always the commit. */
const isEnough = (step: string, times = 0) => !isNightly && step !== 'commit' && times > 0;

export interface Example {
  /** `postgres.mjs` or `duckdb.mjs`. */
  readonly name: string;
  readonly target: string;
  readonly rows: () => Promise<readonly Row[]>;
}

/** Kills the example at each step of each stage, and runs it again. Then each row that counts must be in the target once. */
export async function expectEachRowOnce(
  folder: string,
  { name, target, rows }: Example,
  { prepare, present, stages: own }: Mode,
) {
  const history = new DeliveryHistory({ format: 'jsonl.gz' });
  prepare(history);
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
  const all = () => [...present(history)].sort((one, other) => one.id - other.id);
  const intervals: Three = [history.deliver(2, 1), history.deliver(3), history.skip('open')];
  history.state();
  await run();
  expect(await rows()).toEqual(all());
  const steps = stepsOf(own);
  const reached = new Map<string, number>();
  for (const [stage, happen] of firstByDay(3, Object.entries(own))) {
    happen(history, intervals);
    const before = await rows();
    if (isNightly || reached.size === 0) {
      // Nothing that has no statement yet is loaded.
      await run();
      expect([stage, await rows()]).toEqual([stage, before]);
    }
    history.state();
    let isLoaded = false;
    for (const step of steps) {
      if (isEnough(step, reached.get(step))) continue;
      const end = await run('--stop-at', step);
      if (end === 'SIGKILL') reached.set(step, (reached.get(step) ?? 0) + 1);
      isLoaded ||= end === 'done' || step === 'committed';
      expect([stage, step, await rows()]).toEqual([stage, step, isLoaded ? all() : before]);
    }
    await run();
    expect([stage, await rows()]).toEqual([stage, all()]);
  }
  const isReached = (step: string) =>
    step !== 'removed' || own !== changes.stages || name === 'postgres.mjs';
  expect([...reached.keys()].sort()).toEqual(steps.filter(isReached).sort());
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
