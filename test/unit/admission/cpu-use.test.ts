import { afterEach, expect, test } from 'vitest';
import { CpuPressure, CpuUse } from '../../../src/service/admission/cpu-use.ts';

function start() {
  const clock = { cpuMs: 0, now: 0 };
  const use = new CpuUse(
    () => clock.cpuMs,
    () => clock.now,
  );
  const work = (cpuMs: number) => {
    clock.cpuMs += cpuMs;
    clock.now += cpuMs;
  };
  return { clock, use, work };
}

test('who used much more of the processors than the others used too much', () => {
  const { use, work } = start();
  const endA = use.begin('a');
  work(300);
  endA();
  const endB = use.begin('b');
  work(100);
  endB();
  expect(
    ['a', 'b', 'c'].map((id) =>
      use.isTooMuch(
        id,
        ['a', 'b', 'c'].filter((other) => other !== id),
      ),
    ),
  ).toEqual([true, false, false]);
});

test('runs that execute at the same time share what was used, and those in progress count', () => {
  const { use, work } = start();
  for (const id of ['a', 'a', 'a', 'b']) use.begin(id);
  work(400);
  expect(use.isTooMuch('a', ['b'])).toBe(true);
  expect(use.isTooMuch('b', ['a'])).toBe(false);
  // Two of the others did nothing, but it used less than twice the mean of the others.
  expect(use.isTooMuch('b', ['a', 'c', 'd'])).toBe(false);
  expect(use.isTooMuch('a', ['b', 'c', 'd'])).toBe(true);
});

test('neither a slow store nor work in a source makes others the ones that use the most', () => {
  const { clock, use, work } = start();
  // Its runs wait, for a store or for what its queries make a source compute.
  const endWait = use.begin('waiting');
  clock.now += 10_000;
  endWait();
  const end = use.begin('working');
  work(1_000);
  end();
  expect(use.isTooMuch('working', ['waiting'])).toBe(false);
  const { use: other, clock: time, work: workThere } = start();
  const endWork = other.begin('working');
  workThere(1_000);
  endWork();
  other.begin('waiting');
  time.now += 10_000;
  expect(other.isTooMuch('waiting', ['working'])).toBe(false);
});

test('an organization that is alone, or did nothing, did not use too much', () => {
  const { use, work } = start();
  work(1_000);
  expect(use.isTooMuch('a', ['b'])).toBe(false);
  const end = use.begin('a');
  work(1_000);
  end();
  expect(use.isTooMuch('a', [])).toBe(false);
});

test('what was used long ago counts little', () => {
  const { clock, use, work } = start();
  const endA = use.begin('a');
  work(1_000);
  endA();
  clock.now += 300_000;
  const endB = use.begin('b');
  work(100);
  endB();
  expect(use.isTooMuch('a', ['b'])).toBe(false);
  expect(use.isTooMuch('b', ['a'])).toBe(true);
});

test('after an hour in which the process was frozen in a run, others are not held to use too much', () => {
  const { clock, use, work } = start();
  const endFrozen = use.begin('frozen');
  work(10);
  clock.now += 3_600_000;
  endFrozen();
  const end = use.begin('other');
  work(100);
  end();
  expect(use.isTooMuch('other', ['frozen'])).toBe(false);
  // An hour later that is forgotten too.
  clock.now += 3_600_000;
  const endLater = use.begin('other');
  work(100);
  endLater();
  expect(use.isTooMuch('other', ['frozen'])).toBe(true);
});

test('of many organizations with about the same work none used too much', () => {
  const { use, work } = start();
  const all = Array.from({ length: 50 }, (_, n) => `organization ${n}`);
  // In the first seconds some have had three times as much as others by chance.
  for (const [n, id] of all.entries()) {
    const end = use.begin(id);
    work(100 + 100 * (n % 3));
    end();
  }
  const others = (id: string) => all.filter((other) => other !== id);
  expect(all.filter((id) => use.isTooMuch(id, others(id)))).toEqual([]);
  const end = use.begin('organization 7');
  work(3_000);
  end();
  expect(all.filter((id) => use.isTooMuch(id, others(id)))).toEqual(['organization 7']);
});

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
