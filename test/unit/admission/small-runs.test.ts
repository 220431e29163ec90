import { expect, it } from 'vitest';
import { ReadingBudget } from '../../../src/extensions/iceberg/avro.ts';
import type { Destination } from '../../../src/rows/destinations/destination.ts';
import { MemoryGate, SmallSlots } from '../../../src/service/admission/memory-gate.ts';
import { SmallRun } from '../../../src/service/admission/small-run.ts';

const mebibyte = 2 ** 20;

/** A store that answers with so many bytes, and counts those that were taken. */
function storeOf(bytes: number) {
  const store = {
    taken: 0,
    get traits() {
      return { taken: store.taken };
    },
    async readFile() {
      async function* body() {
        for (; store.taken < bytes; store.taken += 1_000) yield new Uint8Array(1_000);
      }
      return { body: body(), etag: '"a"' };
    },
  };
  return store as unknown as Destination & { readonly taken: number };
}

/** A small run in a worker with so much memory. */
async function enter(memory: number) {
  const gate = new MemoryGate(memory);
  const place = await gate.enterSmall(2 * mebibyte, 'own');
  if (!place) throw new Error('the gate is closed');
  return { gate, run: new SmallRun(place, 48 * mebibyte) };
}

async function readAll(run: SmallRun, store: ReturnType<typeof storeOf>): Promise<number> {
  const found = await run.at(store).readFile('key');
  let bytes = 0;
  for await (const chunk of found?.body ?? []) bytes += chunk.length;
  return bytes;
}

it('reads a large manifest of its store only with the memory of a large run', async () => {
  const { gate, run } = await enter(60 * mebibyte);
  expect(await readAll(run, storeOf(500_000))).toBe(500_000);
  expect(gate.usedBytes).toBe(2 * mebibyte);
  expect(await readAll(run, storeOf(16_000_000))).toBe(16_000_000);
  expect(gate.usedBytes).toBe(48 * mebibyte);
  expect(run.hasOutgrown).toBe(false);
});

it('unpacks a large manifest of a table only with the memory of a large run', async () => {
  const { gate, run } = await enter(60 * mebibyte);
  const { holds } = run.at(storeOf(0));
  const budget = new ReadingBudget(64 * mebibyte, 100_000, holds);
  budget.take(mebibyte, 2_000);
  expect(gate.usedBytes).toBe(2 * mebibyte);
  budget.take(mebibyte, 0);
  expect(gate.usedBytes).toBe(48 * mebibyte);

  const { gate: full, run: other } = await enter(60 * mebibyte);
  await full.enter(30 * mebibyte, 'other');
  const place = other.at(storeOf(0));
  const { holds: refuses } = place;
  expect(() => new ReadingBudget(64 * mebibyte, 100_000, refuses).take(4 * mebibyte, 0)).toThrow(
    expect.objectContaining({ code: 'run.released' }),
  );
  expect(other.hasOutgrown).toBe(true);
});

it('ends if there is no memory for it, and has read no more', async () => {
  const { gate, run } = await enter(60 * mebibyte);
  await gate.enter(30 * mebibyte, 'other');
  const store = storeOf(16_000_000);
  await expect(readAll(run, store)).rejects.toMatchObject({ code: 'run.released' });
  expect(store.taken).toBeLessThanOrEqual(mebibyte / 2 + 1_000);
  expect(run.hasOutgrown).toBe(true);
  // What else it says is as it was.
  expect(run.at(store).traits).toEqual({ taken: store.taken });
});

/** Runs that end when they are allowed to. */
function openRuns() {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const run = (name: string) => () =>
    new Promise<void>((resolve) => {
      begun.push(name);
      ends.set(name, resolve);
    });
  return { begun, run, end: (name: string) => ends.get(name)?.() };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

it('a run that takes long holds one slot, and others follow each other beside it', async () => {
  const slots = new SmallSlots(2);
  const { begun, run, end } = openRuns();
  const job = (async () => {
    for (const name of ['long', 'b', 'c', 'd']) await slots.begin(run(name));
  })();
  await turn();
  expect(begun).toEqual(['long', 'b']);
  end('b');
  await turn();
  expect(begun).toEqual(['long', 'b', 'c']);
  end('c');
  await job;
  expect(begun).toEqual(['long', 'b', 'c', 'd']);
});

it('its end waits for every run, also for those that begin meanwhile', async () => {
  const slots = new SmallSlots(1);
  const { begun, run, end } = openRuns();
  await slots.begin(run('a'));
  const second = slots.begin(run('b'));
  let isOver = false;
  const ended = slots.ended().then(() => {
    isOver = true;
  });
  end('a');
  await second;
  await turn();
  expect([begun, isOver]).toEqual([['a', 'b'], false]);
  end('b');
  await ended;
});

it.each([
  ['one worker gets all, if it has as many slots', 20, 24, 24, 20],
  ['a job has no more runs than a worker has slots', 48, 8, 8, 8],
  ['each worker gets its part', 20, 24, 96, 5],
  ['the last runs are shared too', 3, 24, 96, 1],
  ['workers with one slot get one run at a time', 8, 1, 4, 1],
  ['a worker that has not reported yet', 8, 24, 0, 8],
  ['a worker without slots only dispatches', 8, 0, 24, 1],
])('%s', (_, runs, slots, allPlaces, most) => {
  expect(new SmallSlots(slots).perJob(runs, allPlaces)).toBe(most);
});
