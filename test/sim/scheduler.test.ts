/**
 * The whole scheduler with every fault it must survive: the real use cases and the store's real SQL on
 * PostgreSQL, in simulated time. `npm run test:sim -- --seed S --runs N` plays other histories; a
 * failure prints the seed that repeats it.
 */

import fc from 'fast-check';
import { describe, expect, inject, test } from 'vitest';
import { isNightly } from '../support/nightly.ts';
import type { Defect } from './faulty-database.ts';
import { simulate, type Tally } from './simulate.ts';

declare module 'vitest' {
  interface ProvidedContext {
    simulation?: { readonly seed: number; readonly runs: number } | undefined;
  }
}

const asked = inject('simulation');
const seed = asked?.seed ?? Math.floor(Math.random() * 0x7fffffff);
const runs = asked?.runs ?? (isNightly ? 10_000 : 10);
const hourMs = 3_600_000;

describe(`simulation with --seed ${seed} --runs ${runs}`, () => {
  test(
    'every history ends with all intervals recorded once and truly',
    async () => {
      const tally: Tally = { histories: 0, actions: 0, runs: 0, completed: 0 };
      const { details } = await simulate(seed, runs, null, tally);
      if (details.failed) {
        throw new Error(
          `replay: npm run test:sim -- --seed ${seed} --runs ${runs}\n${fc.defaultReportMessage(details)}`,
          { cause: details.errorInstance },
        );
      }
      // A simulator that does nothing finds nothing. Ten histories can be short by chance.
      expect(tally.histories).toBe(runs);
      expect(tally.completed).toBeGreaterThan(0);
      console.log(`simulated: ${JSON.stringify({ seed, ...tally })}`);
    },
    4 * hourMs,
  );
});

describe.runIf(isNightly)('the simulator finds what is put in on purpose:', () => {
  type Case = readonly [Defect, string, RegExp];
  // Most are found after few histories, some after hundreds.
  const all: readonly Case[] = [
    ['fence_never_rises', 'a claim that hands out the same fence', /I5: /],
    ['ring_once', 'a dispatcher that never enqueues again', /never ends/],
    ['plan_from_memory', 'a planner that does not read the row it locks', /I1 I2: |has no tick/],
    ['generation_again', 'a claim under the generation of the attempt before', /C2: /],
    ['put_unconditionally', 'a commit without a condition', /I4: /],
    ['forget_delivered', 'a supplement without the files of before', /I9: /],
    ['drop_missing', 'a re-run of a source that has fewer rows', /I9: /],
    ['look_at_paused', 'a look-back of a paused export', /is of a look-back of a paused export/],
    ['hand_back_keeps_fence', 'a heartbeat that outlives a hand-back', /lease without a worker/],
  ];
  test.each(all)(
    '%s, %s',
    async (defect, _, message) => {
      // Stops at the first find.
      const { details, edited } = await simulate(seed, 5_000, defect);
      expect(edited).toBe(true);
      expect(details.failed).toBe(true);
      expect(String(details.errorInstance)).toMatch(message);
      console.log(`${defect}: found in history ${details.numRuns}`);
    },
    hourMs,
  );
});
