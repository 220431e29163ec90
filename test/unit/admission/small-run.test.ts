import { expect, it } from 'vitest';
import type { Destination } from '../../../src/rows/destinations/destination.ts';
import { ReadingBudget } from '../../../src/extensions/iceberg/avro-read.ts';
import { MemoryGate, SmallRun } from '../../../src/service/admission/memory-gate.ts';

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
