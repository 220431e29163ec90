/**
 * The commit protocol of docs/internals/guarantees.md, explored exhaustively: every order of the steps of
 * workers, sweeps, late requests and failures that a scenario allows. The model uses no code of the
 * service, so its answers change only with itself: by day the quick cases run, at night all.
 */

import { describe, expect, test } from 'vitest';
import { isNightly } from '../support/nightly.ts';
import { type Mutant, mutants } from './commit/mutants.ts';
import { mutantScenarios, type ScenarioName, scenarios, weaker } from './commit/scenarios.ts';
import { commitModel, type Scenario } from './commit/world.ts';
import { explore } from './explore.ts';

/** By day without those that take long; at night all. */
const quick = (all: Readonly<Record<string, Scenario>>) =>
  Object.entries(all).filter(([name]) => isNightly || !slowScenarios.has(name));

const slowScenarios: ReadonlySet<string> = new Set<ScenarioName | keyof typeof weaker>([
  'gzip, plain, gzip',
  'two attempts, then a re-run with other bytes, with failures',
  'a restored database',
  'small files, with failures',
  'small files, with requests that come late, or twice',
  'the sweep beside attempts',
  'another prefix and back',
  'objects of others',
  'the same place by another address, at the same keys',
  'another place, and back with another prefix',
  'small files and objects of others',
  'the same place by another address, with another prefix',
  'a store with conditions on puts, not on completing',
  'a store without If-Match, requests at any time: true, but maybe of an earlier run',
  'a store without conditions, requests within the lease',
  'without If-Match, a second copy of a put names files that are removed since',
  'without If-Match, a put that lands after its lease replaces a newer manifest',
  'a store without If-Match, requests within the lease',
  'a store without conditions, requests at any time: true, but maybe of an earlier run',
  'looks for uploads beside attempts',
  'small files at another prefix and back',
]);

describe('no state breaks an invariant:', () => {
  test.each(quick(scenarios))('%s', (name, scenario) => {
    const { states, depth, violation } = explore(commitModel(scenario));
    expect(violation?.text).toBeUndefined();
    console.log(`${name}: ${states} states, depth ${depth}`);
  });
});

describe('the weaker promise of a store without conditions:', () => {
  test.each(quick(weaker))('%s', (name, scenario) => {
    const { violation } = explore(commitModel(scenario));
    console.log(`${name}\n${violation?.text}`);
    expect(violation?.invariant).toMatch(/^C[1345]$/);
  });
});

/** Those that take most of the time. */
const slow: readonly Mutant[] = [
  'unchanged_beside_a_sleeper',
  'fence_without_era',
  'tombstone_without_generation',
  'unchanged_at_a_former_prefix',
  'no_floor_from_manifest',
  'delete_again_before_the_look',
  'delete_what_was_noted',
  'forget_the_place_at_once',
  'remove_uncommitted_early',
  'delete_the_old_manifest',
  'delete_before_tombstone',
];
const all = Object.keys(mutants) as Mutant[];

describe('the model finds what is put in on purpose:', () => {
  test.each(all.filter((mutant) => isNightly || !slow.includes(mutant)))('%s', (mutant) => {
    const [scenario, invariant] = mutantScenarios[mutant];
    const { states, violation } = explore(commitModel({ ...scenario, mutant }));
    console.log(`${mutant} (${mutants[mutant]}), ${states} states\n${violation?.text}`);
    expect(violation?.invariant).toMatch(invariant);
  });
});
