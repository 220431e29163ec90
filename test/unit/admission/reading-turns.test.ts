import { expect, test } from 'vitest';
import { ReadingTurns } from '../../../src/service/admission/reading-turns.ts';
import type { Source } from '../../../src/rows/sources/source.ts';

const large = 5 * 2 ** 20;

/** A source whose blocks are given by the test, and which counts how many are asked for. */
function startSource() {
  const waiting: ((bytes: number | null) => void)[] = [];
  const next = () => new Promise<number | null>((resolve) => waiting.push(resolve));
  const snapshot = {
    columns: [],
    totalCount: 1,
    snapshot: '',
    slices: [{ start: 0, end: 1 }],
    projection: null,
    keySet: () => null,
    async *read() {
      for (let bytes = await next(); bytes !== null; bytes = await next()) {
        yield { bytes: { length: bytes } };
      }
    },
    close: async () => {},
  };
  const source = { open: async () => snapshot } as unknown as Source;
  return { source, waiting };
}

async function openRun(turns: ReadingTurns, organizationId: string, signal: AbortSignal) {
  const { source, waiting } = startSource();
  const snapshot = turns.readIn(organizationId, await source.open({} as never, signal));
  const blocks = snapshot.read({ start: 0, end: 1 }, signal)[Symbol.asyncIterator]();
  return { blocks, waiting };
}

async function executeIn<T>(
  turns: ReadingTurns,
  organizationId: string,
  signal: AbortSignal,
  run: () => Promise<T>,
): Promise<T> {
  const end = await turns.enter(organizationId, signal);
  return run().finally(end);
}

const untilNow = () => new Promise((resolve) => setImmediate(resolve));
const never = new AbortController().signal;

/** Two runs that have read enough to need turns. */
async function openTwo(turns: ReadingTurns, organizations = ['a', 'a'], signal = never) {
  const runs = [];
  for (const id of organizations) {
    const run = await openRun(turns, id, signal);
    const first = run.blocks.next();
    await untilNow();
    // A run's first bytes are free.
    run.waiting.shift()?.(large);
    await first;
    runs.push(run);
  }
  return runs as [(typeof runs)[number], (typeof runs)[number]];
}

test('the long runs of an organization that crowds others read one block at a time', async () => {
  const [one, two] = await openTwo(new ReadingTurns({ isCrowding: () => true }));
  void one.blocks.next();
  const second = two.blocks.next();
  await untilNow();
  expect([one.waiting.length, two.waiting.length]).toEqual([1, 0]);
  one.waiting.shift()?.(large);
  await untilNow();
  expect(two.waiting.length).toBe(1);
  two.waiting.shift()?.(null);
  expect((await second).done).toBe(true);
});

test('all read at the same time if they crowd no other, or are of different organizations', async () => {
  for (const [isCrowding, organizations] of [
    [false, ['a', 'a']],
    [true, ['a', 'b']],
  ] as const) {
    const [one, two] = await openTwo(new ReadingTurns({ isCrowding: () => isCrowding }), [
      ...organizations,
    ]);
    void one.blocks.next();
    void two.blocks.next();
    await untilNow();
    expect([one.waiting.length, two.waiting.length]).toEqual([1, 1]);
  }
});

test('a run does not wait for long: the one before may need what it holds', async () => {
  const [one, two] = await openTwo(new ReadingTurns({ isCrowding: () => true, waitMs: 1 }));
  void one.blocks.next();
  const second = two.blocks.next();
  await untilNow();
  const answering = setInterval(() => two.waiting.shift()?.(null), 1);
  expect((await second).done).toBe(true);
  clearInterval(answering);
  expect(one.waiting.length).toBe(1);
});

test('an abort ends the wait, and the next run has its turn', async () => {
  const turns = new ReadingTurns({ isCrowding: () => true, waitMs: 60_000 });
  const cancel = new AbortController();
  const [one, two] = await openTwo(turns, ['a', 'a'], cancel.signal);
  const [three] = await openTwo(turns);
  void one.blocks.next();
  const second = two.blocks.next();
  await untilNow();
  void three.blocks.next();
  cancel.abort(new Error('cancelled'));
  await expect(second).rejects.toThrow('cancelled');
  one.waiting.shift()?.(large);
  await untilNow();
  await untilNow();
  expect(three.waiting.length).toBe(1);
});

/** Work that the test ends, which uses so much of the processors. */
function startRests(mustRest: (organizationId: string) => boolean) {
  const clock = { cpuMs: 0, now: 0 };
  const rests: { readonly ms: number; readonly end: () => void }[] = [];
  const turns = new ReadingTurns({
    isCrowding: () => true,
    mustRest,
    restShare: () => 3,
    cpuMs: () => clock.cpuMs,
    now: () => clock.now,
    waitMs: 60_000,
    wait: (ms) => new Promise((end) => rests.push({ ms, end })),
  });
  const work = (cpuMs: number) => async () => {
    clock.cpuMs += cpuMs;
  };
  return { clock, rests, turns, work };
}

test('small runs of an organization that must rest execute one at a time', async () => {
  const { turns } = startRests((id) => id === 'a');
  const begun: string[] = [];
  let end = () => {};
  const first = executeIn(turns, 'a', never, () => {
    begun.push('first');
    return new Promise<void>((resolve) => {
      end = resolve;
    });
  });
  const second = executeIn(turns, 'a', never, async () => void begun.push('second'));
  await executeIn(turns, 'b', never, async () => void begun.push('of another'));
  expect(new Set(begun)).toEqual(new Set(['first', 'of another']));
  end();
  await Promise.all([first, second]);
  expect(begun.at(-1)).toBe('second');
  // One that used less than others does not wait.
  void executeIn(turns, 'b', never, () => new Promise<void>(() => {}));
  void executeIn(turns, 'b', never, async () => void begun.push('at once'));
  await untilNow();
  expect(begun.at(-1)).toBe('at once');
});

test('an organization that must rest does so before its next run, for a share of its work, and not too long', async () => {
  const { clock, rests, turns, work } = startRests((id) => id === 'a');
  await executeIn(turns, 'a', never, work(40));
  await executeIn(turns, 'b', never, work(40));
  clock.now += 20;
  const next = executeIn(turns, 'a', never, work(10_000));
  await executeIn(turns, 'b', never, work(40));
  await untilNow();
  expect(rests.map(({ ms }) => ms)).toEqual([100]);
  rests[0]?.end();
  await next;
  // However much it was, the rest has an end.
  const last = executeIn(turns, 'a', never, work(1));
  await untilNow();
  expect(rests[1]?.ms).toBe(1_000);
  clock.now += 1_000;
  rests[1]?.end();
  await last;
  clock.now += 3;
  await executeIn(turns, 'a', never, work(1));
  expect(rests).toHaveLength(2);
});

test('of what the processors did during a small run, it rests for its own part only', async () => {
  const { clock, rests, turns, work } = startRests((id) => id === 'a');
  let end = () => {};
  const beside = executeIn(
    turns,
    'b',
    never,
    () =>
      new Promise<void>((resolve) => {
        end = resolve;
      }),
  );
  // It is executed beside one of another organization, which ends later.
  await executeIn(turns, 'a', never, work(40));
  const next = executeIn(turns, 'a', never, work(0));
  await untilNow();
  expect(rests.map(({ ms }) => ms)).toEqual([60]);
  clock.now += 60;
  rests[0]?.end();
  await next;
  end();
  await beside;
});

test('a long run rests between blocks, for what it did with the block too', async () => {
  const { clock, rests, turns } = startRests(() => true);
  const { blocks, waiting } = await openRun(turns, 'a', never);
  const first = blocks.next();
  await untilNow();
  clock.cpuMs += 30;
  waiting.shift()?.(large);
  await first;
  clock.cpuMs += 70;
  const second = blocks.next();
  await untilNow();
  expect([rests.map(({ ms }) => ms), waiting.length]).toEqual([[300], 0]);
  rests[0]?.end();
  await untilNow();
  waiting.shift()?.(null);
  expect((await second).done).toBe(true);
});

const hourMs = 3_600_000;

test('a process that was frozen for an hour in a rest goes on at once, and owes no rest for the hour', async () => {
  const { clock, rests, turns, work } = startRests(() => true);
  await executeIn(turns, 'a', never, work(100));
  const next = executeIn(turns, 'a', never, work(0));
  await untilNow();
  expect(rests).toHaveLength(1);
  // The timer of the rest is late, and no processor was used meanwhile.
  clock.now += hourMs;
  rests[0]?.end();
  await next;
  await executeIn(turns, 'a', never, work(0));
  expect(rests).toHaveLength(1);
});

test('a process that was frozen for an hour in a rest reads nothing more for a run that it has lost', async () => {
  const { clock, rests, turns } = startRests(() => true);
  const lease = new AbortController();
  const { blocks, waiting } = await openRun(turns, 'a', lease.signal);
  const first = blocks.next();
  await untilNow();
  clock.cpuMs += 100;
  waiting.shift()?.(large);
  await first;
  const second = blocks.next();
  const other = executeIn(turns, 'a', never, async () => 'executed');
  await untilNow();
  clock.now += hourMs;
  // The heartbeat's timer is as late, and comes first: another worker has the run.
  lease.abort(new Error('run.lease_lost'));
  for (const { end } of rests) end();
  await expect(second).rejects.toThrow('run.lease_lost');
  expect(waiting).toHaveLength(0);
  expect(await other).toBe('executed');
});

test('an abort ends a rest', async () => {
  const cancel = new AbortController();
  let cpuMs = 0;
  // Its clock never moves, so the rest would last a second.
  const turns = new ReadingTurns({
    isCrowding: () => true,
    mustRest: () => true,
    cpuMs: () => cpuMs,
    now: () => 0,
  });
  await executeIn(turns, 'a', cancel.signal, async () => {
    cpuMs += 1_000_000;
  });
  const begun: string[] = [];
  const next = executeIn(turns, 'a', cancel.signal, async () => void begun.push('next'));
  cancel.abort(new Error('cancelled'));
  await expect(next).rejects.toThrow('cancelled');
  expect(begun).toEqual([]);
});
