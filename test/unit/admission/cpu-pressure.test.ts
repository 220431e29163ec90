import { afterEach, expect, test } from 'vitest';
import { CpuPressure } from '../../../src/service/admission/cpu-use.ts';

let now = 0;
let stalledMs: number | null = 0;
const pressure = new CpuPressure(
  () => now,
  async () => stalledMs,
);
afterEach(() => pressure.close());

test('tasks that wait for a processor more than a quarter of the time are pressure, also for a while after', async () => {
  const pass = async (ms: number, stalled: number) => {
    now += ms;
    stalledMs = (stalledMs ?? 0) + stalled;
    await pressure.look();
    return pressure.isPressed();
  };
  expect(await pass(1_000, 900)).toBe(false); // The first look has nothing to compare with.
  expect(await pass(1_000, 200)).toBe(false);
  expect(await pass(1_000, 300)).toBe(true);
  expect(await pass(29_000, 0)).toBe(true);
  expect(await pass(2_000, 0)).toBe(false);
  // A system without the measure.
  stalledMs = null;
  now += 1_000;
  await pressure.look();
  expect(pressure.isPressed()).toBe(false);
  stalledMs = 1e9;
  expect(await pass(1_000, 0)).toBe(false);
});

test('rests become longer while the processors have too much to do, up to a bound, and shorter afterwards', async () => {
  const look = async (stalled: number) => {
    now += 1_000;
    stalledMs = (stalledMs ?? 0) + stalled;
    await pressure.look();
    return pressure.rest;
  };
  await look(0);
  for (let looked = 0; looked < 20; looked += 1) await look(0);
  expect(pressure.rest).toBe(1);
  expect([await look(500), await look(500), await look(500), await look(500)]).toEqual([
    2, 4, 8, 8,
  ]);
  const shorter = await look(100);
  expect(shorter).toBeLessThan(8);
  expect(shorter).toBeGreaterThan(4);
  expect(await look(100)).toBeLessThan(shorter);
});
