import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { paced } from '../../../src/service/worker/shared-work.ts';

it('calls of a paced piece of work share an execution that begins after them', async () => {
  const ends: (() => void)[] = [];
  const begun: number[] = [];
  let calls = 0;
  const work = paced(() => {
    begun.push(calls);
    return new Promise<void>((resolve) => ends.push(resolve));
  });
  const call = () => {
    calls += 1;
    return work();
  };
  const first = [call(), call()];
  while (begun.length < 1) await new Promise((resolve) => setImmediate(resolve));
  const during = [call(), call(), call()];
  expect(begun).toEqual([2]);
  ends.shift()?.();
  await Promise.all(first);
  while (begun.length < 2) await new Promise((resolve) => setImmediate(resolve));
  expect(begun).toEqual([2, 5]);
  ends.shift()?.();
  await Promise.all(during);
});

it('an execution that fails fails its calls only', async () => {
  let fails = true;
  const work = paced(async () => {
    if (fails) throw new Error('once');
  });
  await expect(work()).rejects.toThrow('once');
  fails = false;
  await work();
});

it('work that takes long rests as long before it begins again', async () => {
  const begun: number[] = [];
  const took: number[] = [];
  const work = paced(async () => {
    const at = performance.now();
    begun.push(at);
    await delay(50);
    took.push(performance.now() - at);
  });
  await work();
  await work();
  const [first = 0, second = 0] = begun;
  // A timer may end a millisecond early.
  expect(second - first).toBeGreaterThan(2 * (took[0] ?? 0) - 2);
});
