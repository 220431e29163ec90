import { expect, it } from 'vitest';
import { SmallSlots, runsPerJob } from '../../../src/service/admission/admission.ts';

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
  expect(runsPerJob(runs, slots, allPlaces)).toBe(most);
});
