/**
 * The commit protocol of docs/guarantees.md, explored exhaustively: every order of the steps of
 * workers, sweeps, late requests and failures that a scenario allows.
 */

import { describe, expect, test } from 'vitest';
import { type Mutant, mutants } from './commit/mutants.ts';
import { mutantScenarios, scenarios, weaker } from './commit/scenarios.ts';
import { commitModel } from './commit/world.ts';
import { casesOf } from '../support/nightly.ts';
import { explore } from './explore.ts';

describe('no state breaks an invariant:', () => {
  test.each(Object.entries(scenarios))('%s', (name, scenario) => {
    const { states, depth, violation } = explore(commitModel(scenario));
    expect(violation?.text).toBeUndefined();
    console.log(`${name}: ${states} states, depth ${depth}`);
  });
});

describe('the weaker promise of a store without conditions:', () => {
  test.each(Object.entries(weaker))('%s', (name, scenario) => {
    const { violation } = explore(commitModel(scenario));
    console.log(`${name}\n${violation?.text}`);
    expect(violation?.invariant).toMatch(/^C[1345]$/);
  });
});

/** They take as long as all others together. */
const slow: readonly Mutant[] = ['unchanged_beside_a_sleeper', 'fence_without_era'];
const byDay = (Object.keys(mutants) as Mutant[]).filter((mutant) => !slow.includes(mutant));

describe('the model finds what is put in on purpose:', () => {
  test.each(casesOf(byDay, slow))('%s', (mutant) => {
    const [scenario, invariant] = mutantScenarios[mutant];
    const { states, violation } = explore(commitModel({ ...scenario, mutant }));
    console.log(`${mutant} (${mutants[mutant]}), ${states} states\n${violation?.text}`);
    expect(violation?.invariant).toMatch(invariant);
  });
});
