import { expect, test } from 'vitest';
import { CpuUse } from '../../../src/service/admission/cpu-use.ts';

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

test('who used more of the processors than the others is above the mean', () => {
  const { use, work } = start();
  const endA = use.begin('a');
  work(300);
  endA();
  const endB = use.begin('b');
  work(100);
  endB();
  expect(
    ['a', 'b', 'c'].map((id) =>
      use.isAboveMean(
        id,
        ['a', 'b', 'c'].filter((other) => other !== id),
      ),
    ),
  ).toEqual([true, false, false]);
});

test('runs that execute at the same time share what was used, and those in progress count', () => {
  const { use, work } = start();
  use.begin('a');
  use.begin('a');
  use.begin('b');
  work(300);
  expect(use.isAboveMean('a', ['b'])).toBe(true);
  expect(use.isAboveMean('b', ['a'])).toBe(false);
  // Of three others two did nothing: a third of it is more than the mean.
  expect(use.isAboveMean('b', ['a', 'c', 'd'])).toBe(true);
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
  expect(use.isAboveMean('working', ['waiting'])).toBe(false);
  const { use: other, clock: time, work: workThere } = start();
  const endWork = other.begin('working');
  workThere(1_000);
  endWork();
  other.begin('waiting');
  time.now += 10_000;
  expect(other.isAboveMean('waiting', ['working'])).toBe(false);
});

test('an organization that is alone, or did nothing, is not above the mean', () => {
  const { use, work } = start();
  work(1_000);
  expect(use.isAboveMean('a', ['b'])).toBe(false);
  const end = use.begin('a');
  work(1_000);
  end();
  expect(use.isAboveMean('a', [])).toBe(false);
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
  expect(use.isAboveMean('a', ['b'])).toBe(false);
  expect(use.isAboveMean('b', ['a'])).toBe(true);
});

test('after an hour in which the process was frozen in a run, others are not held to be above the mean', () => {
  const { clock, use, work } = start();
  const endFrozen = use.begin('frozen');
  work(10);
  clock.now += 3_600_000;
  endFrozen();
  const end = use.begin('other');
  work(100);
  end();
  expect(use.isAboveMean('other', ['frozen'])).toBe(false);
  // An hour later that is forgotten too.
  clock.now += 3_600_000;
  const endLater = use.begin('other');
  work(100);
  endLater();
  expect(use.isAboveMean('other', ['frozen'])).toBe(true);
});
