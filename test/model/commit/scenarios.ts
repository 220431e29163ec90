/** What is explored in CI: small worlds, each to its last state. */

import type { Mutant } from './mutants.ts';
import type { Store } from './protocol.ts';
import type { Config } from './state.ts';
import type { Scenario } from './world.ts';

const gzip: Config = { prefix: 'p', bytes: 'gzip' };
/** Other rows under the same recipe: the same key, but for its generation. */
const gzipOfOtherRows: Config = { prefix: 'p', bytes: 'gzip*' };
const plain: Config = { prefix: 'p', bytes: 'plain' };
const moved: Config = { prefix: 'q', bytes: 'gzip' };

const elsewhere: Config = { prefix: 'B:p', bytes: 'gzip' };
/** The first place by another address. */
const byAlias: Config = { prefix: 'a:q', bytes: 'gzip' };
const byAliasInPlace: Config = { prefix: 'a:p', bytes: 'gzip*' };

const small: Config = { ...gzip, isSmall: true };
const smallPlain: Config = { ...plain, isSmall: true };
const smallMoved: Config = { ...moved, isSmall: true };

const full: Store = { ifNoneMatch: true, ifMatch: true, onComplete: true };
const manifestsOnly: Store = { ...full, onComplete: false };
const noIfMatch: Store = { ifNoneMatch: true, ifMatch: false, onComplete: true };
const none: Store = { ifNoneMatch: false, ifMatch: false, onComplete: false };
/** `MODEL=deep` gives each scenario an attempt more: minutes instead of seconds. */
const deep = process.env.MODEL === 'deep';

const rerun = [gzip, gzipOfOtherRows];
const smallRerun = [small, smallPlain];
const failing = { runs: 2, claims: 3, failures: 1 };
const two = { runs: 2, claims: deep ? 3 : 2 };
const three = { runs: 3, claims: deep ? 4 : 3 };

const of = (
  configs: readonly Config[],
  budget: Scenario['budget'],
  rules: Partial<Scenario> = {},
): Scenario => ({ store: full, mutant: null, ...rules, configs, budget });

export const scenarios = {
  'two attempts, then a re-run with other bytes, with failures': of(rerun, failing),
  'gzip, plain, gzip': of([gzip, plain, gzip], three),
  'requests that come late, or twice': of([gzip, plain], { ...two, late: 1, echoes: 1 }),
  'the sweep beside attempts': of(rerun, { ...failing, sweeps: 1 }),
  'looks for uploads beside attempts': of(
    rerun,
    { ...two, failures: 1, looks: 1 },
    { looks: true },
  ),
  'looks for uploads beside attempts at another prefix': of(
    [gzip, moved],
    { ...two, looks: 1 },
    { looks: true },
  ),
  'another prefix and back': of([gzip, moved, gzip], three),
  'another place, and back with another prefix': of([gzip, elsewhere, moved], {
    ...three,
    sweeps: 1,
  }),
  'the same place by another address, with another prefix': of([gzip, byAlias], {
    runs: 2,
    claims: 3,
    sweeps: 1,
  }),
  'the same place by another address, at the same keys': of([gzip, byAliasInPlace], failing),
  'objects of others': of(rerun, { ...failing, foreigners: 1 }),
  'small files and objects of others': of(smallRerun, { ...failing, foreigners: 1, sweeps: 1 }),
  "another export's manifest, at a store without conditions": of([gzip], failing, {
    store: none,
    timely: true,
    takenPrefix: 'p',
  }),
  'an outsider deletes a file': of([gzip], { runs: 2, claims: 3, outsiders: 1 }),
  'a restored database': of([gzip, plain], { ...two, restores: 1 }),
  'small files, with failures': of(smallRerun, failing),
  'small files beside large ones, and the sweep': of([small, gzipOfOtherRows], {
    ...two,
    failures: 1,
    sweeps: 2,
  }),
  'small files, with requests that come late, or twice': of(smallRerun, {
    ...two,
    late: 1,
    echoes: 1,
    sweeps: 1,
  }),
  'small files at another prefix and back': of([small, smallMoved, small], three),
  'small files and a restored database': of(smallRerun, { ...two, restores: 1 }),
  'a store with conditions on puts, not on completing': of(rerun, failing, {
    store: manifestsOnly,
  }),
  'a store without If-Match, requests within the lease': of(rerun, failing, {
    store: noIfMatch,
    timely: true,
  }),
  'a store without If-Match, requests at any time: true, but maybe of an earlier run': of(
    rerun,
    failing,
    { store: noIfMatch, promises: /^C[123]$/ },
  ),
  'a store without conditions, requests at any time: true, but maybe of an earlier run': of(
    rerun,
    { runs: 2, claims: 3 },
    { store: none, promises: /^C[123]$/ },
  ),
  'a store without conditions, requests within the lease': of(
    rerun,
    { ...failing, sweeps: 1 },
    { store: none, timely: true },
  ),
  'a store without conditions and a restored database, requests within the lease': of(
    rerun,
    { ...two, restores: 1 },
    { store: none, timely: true },
  ),
} satisfies Record<string, Scenario>;

/** What a store without conditions cannot promise: the shortest way to it. */
export const weaker = {
  'without If-Match, a put that lands after its lease replaces a newer manifest': of(
    rerun,
    failing,
    { store: noIfMatch },
  ),
  'without If-Match, a second copy of a put names files that are removed since': of(
    [gzip, gzipOfOtherRows, gzip],
    { runs: 3, claims: 3, echoes: 1 },
    { store: noIfMatch, workers: 1, promises: /^C[123]$/ },
  ),
  'without conditions, so does the first put of an interval': of(
    rerun,
    { runs: 1, claims: 2 },
    { store: none },
  ),
} satisfies Record<string, Scenario>;

export type ScenarioName = keyof typeof scenarios;

/** A smallest world in which each mutant does its harm, and the invariants that may show it. */
export const mutantScenarios: Record<Mutant, readonly [Scenario, RegExp]> = {
  reuse_keys: [of([gzip, plain, gzip], { runs: 3, claims: 4 }), /^C[13]$/],
  overwrite_named_keys: [
    scenarios['two attempts, then a re-run with other bytes, with failures'],
    /^C1$/,
  ],
  unchanged_beside_a_sleeper: [
    of([gzip, plain, gzip], { runs: 3, claims: 3, failures: 1 }),
    /^C[45]$/,
  ],
  unchanged_at_a_former_prefix: [scenarios['another prefix and back'], /^C[46]$/],
  tombstone_only_where_the_receipt_is: [scenarios['another prefix and back'], /^C[136]$/],
  delete_the_old_manifest: [scenarios['another prefix and back'], /^C[136]$/],
  tombstone_without_generation: [scenarios['another prefix and back'], /^C[46]$/],
  delete_before_tombstone: [scenarios['another prefix and back'], /^C[13]$/],
  put_on_a_fresh_tag: [
    scenarios['two attempts, then a re-run with other bytes, with failures'],
    /^C[345]$/,
  ],
  share_a_generation: [scenarios['a store with conditions on puts, not on completing'], /^C[134]$/],
  remove_uncommitted_early: [scenarios['the sweep beside attempts'], /^C[13]$/],
  delete_own_files_after_a_conflict: [
    scenarios['two attempts, then a re-run with other bytes, with failures'],
    /^C[13]$/,
  ],
  delete_again_before_the_look: [scenarios['the sweep beside attempts'], /^C7$/],
  abort_what_a_live_attempt_has: [scenarios['looks for uploads beside attempts'], /^C11$/],
  abort_what_a_sleeper_has: [scenarios['looks for uploads beside attempts'], /^C11$/],
  forget_the_place_at_once: [scenarios['looks for uploads beside attempts'], /^C7$/],
  adopt_without_digests: [scenarios['gzip, plain, gzip'], /^C[45]$/],
  generation_from_receipt_only: [
    scenarios['two attempts, then a re-run with other bytes, with failures'],
    /^C2$/,
  ],
  no_floor_from_manifest: [
    {
      ...scenarios['a store without conditions and a restored database, requests within the lease'],
      budget: { runs: 2, claims: 3, restores: 1 },
    },
    /^C[134]$/,
  ],
  fence_without_era: [of([gzip, plain], { runs: 1, claims: 3, restores: 1 }), /^C[1-6]$/],
  skip_presence_check: [scenarios['an outsider deletes a file'], /^C4$/],
  put_over_what_is_there: [
    scenarios['small files, with requests that come late, or twice'],
    /^C[13]$/,
  ],
  first_commit_reads_nothing: [
    scenarios["another export's manifest, at a store without conditions"],
    /^C10$/,
  ],
  receipt_moves_without_a_record: [
    scenarios['another place, and back with another prefix'],
    /^C[67]$/,
  ],
  places_by_their_address: [
    scenarios['the same place by another address, with another prefix'],
    /^C[67]$/,
  ],
  delete_what_was_noted: [scenarios['objects of others'], /^C10$/],
  keep_files_of_a_refused_commit: [scenarios['objects of others'], /^C7$/],
  forget_after_one_deletion: [
    scenarios['small files, with requests that come late, or twice'],
    /^C7$/,
  ],
};
