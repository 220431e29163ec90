import { expect, test } from 'vitest';
import { ReadingTurns } from '../../../src/pipeline/reading-turns.ts';
import type { Source } from '../../../src/sources/source.ts';

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
  const snapshot = await turns.of(organizationId, source).open({} as never, signal);
  const blocks = snapshot.read({ start: 0, end: 1 }, signal)[Symbol.asyncIterator]();
  return { blocks, waiting };
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
  const [one, two] = await openTwo(new ReadingTurns(() => true));
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
    const [one, two] = await openTwo(new ReadingTurns(() => isCrowding), [...organizations]);
    void one.blocks.next();
    void two.blocks.next();
    await untilNow();
    expect([one.waiting.length, two.waiting.length]).toEqual([1, 1]);
  }
});

test('a run does not wait for long: the one before may need what it holds', async () => {
  const [one, two] = await openTwo(new ReadingTurns(() => true, 1));
  void one.blocks.next();
  const second = two.blocks.next();
  await untilNow();
  const answering = setInterval(() => two.waiting.shift()?.(null), 1);
  expect((await second).done).toBe(true);
  clearInterval(answering);
  expect(one.waiting.length).toBe(1);
});

test('an abort ends the wait, and the next run has its turn', async () => {
  const turns = new ReadingTurns(() => true, 60_000);
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
