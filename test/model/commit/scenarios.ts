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

const base = { store: full, mutant: null };

export const scenarios = {
  'two attempts, then a re-run with other bytes, with failures': {
    ...base,
    configs: [gzip, gzipOfOtherRows],
    budget: { runs: 2, claims: 3, failures: 1 },
  },
  'gzip, plain, gzip': {
    ...base,
    configs: [gzip, plain, gzip],
    budget: { runs: 3, claims: deep ? 4 : 3 },
  },
  'requests that come late, or twice': {
    ...base,
    configs: [gzip, plain],
    budget: { runs: 2, claims: deep ? 3 : 2, late: 1, echoes: 1 },
  },
  'the sweep beside attempts': {
    ...base,
    configs: [gzip, gzipOfOtherRows],
    budget: { runs: 2, claims: 3, failures: 1, sweeps: 1 },
  },
  'looks for uploads beside attempts': {
    ...base,
    looks: true,
    configs: [gzip, gzipOfOtherRows],
    budget: { runs: 2, claims: deep ? 3 : 2, failures: 1, looks: 1 },
  },
  'looks for uploads beside attempts at another prefix': {
    ...base,
    looks: true,
    configs: [gzip, moved],
    budget: { runs: 2, claims: deep ? 3 : 2, looks: 1 },
  },
  'another prefix and back': {
    ...base,
    configs: [gzip, moved, gzip],
    budget: { runs: 3, claims: deep ? 4 : 3 },
  },
  'another place, and back with another prefix': {
    ...base,
    configs: [gzip, elsewhere, moved],
    budget: { runs: 3, claims: deep ? 4 : 3, sweeps: 1 },
  },
  'the same place by another address, with another prefix': {
    ...base,
    configs: [gzip, byAlias],
    budget: { runs: 2, claims: 3, sweeps: 1 },
  },
  'the same place by another address, at the same keys': {
    ...base,
    configs: [gzip, byAliasInPlace],
    budget: { runs: 2, claims: 3, failures: 1 },
  },
  'objects of others': {
    ...base,
    configs: [gzip, gzipOfOtherRows],
    budget: { runs: 2, claims: 3, failures: 1, foreigners: 1 },
  },
  'small files and objects of others': {
    ...base,
    configs: [small, smallPlain],
    budget: { runs: 2, claims: 3, failures: 1, foreigners: 1, sweeps: 1 },
  },
  "another export's manifest, at a store without conditions": {
    ...base,
    store: none,
    timely: true,
    takenPrefix: 'p',
    configs: [gzip],
    budget: { runs: 2, claims: 3, failures: 1 },
  },
  'an outsider deletes a file': {
    ...base,
    configs: [gzip],
    budget: { runs: 2, claims: 3, outsiders: 1 },
  },
  'a restored database': {
    ...base,
    configs: [gzip, plain],
    budget: { runs: 2, claims: deep ? 3 : 2, restores: 1 },
  },
  'small files, with failures': {
    ...base,
    configs: [small, smallPlain],
    budget: { runs: 2, claims: 3, failures: 1 },
  },
  'small files beside large ones, and the sweep': {
    ...base,
    configs: [small, gzipOfOtherRows],
    budget: { runs: 2, claims: deep ? 3 : 2, failures: 1, sweeps: 2 },
  },
  'small files, with requests that come late, or twice': {
    ...base,
    configs: [small, smallPlain],
    budget: { runs: 2, claims: deep ? 3 : 2, late: 1, echoes: 1, sweeps: 1 },
  },
  'small files at another prefix and back': {
    ...base,
    configs: [small, smallMoved, small],
    budget: { runs: 3, claims: deep ? 4 : 3 },
  },
  'small files and a restored database': {
    ...base,
    configs: [small, smallPlain],
    budget: { runs: 2, claims: deep ? 3 : 2, restores: 1 },
  },
  'a store with conditions on puts, not on completing': {
    ...base,
    store: manifestsOnly,
    configs: [gzip, gzipOfOtherRows],
    budget: { runs: 2, claims: 3, failures: 1 },
  },
  'a store without If-Match, requests within the lease': {
    ...base,
    store: noIfMatch,
    timely: true,
    configs: [gzip, gzipOfOtherRows],
    budget: { runs: 2, claims: 3, failures: 1 },
  },
  'a store without If-Match, requests at any time: true, but maybe of an earlier run': {
    ...base,
    store: noIfMatch,
    promises: /^C[123]$/,
    configs: [gzip, gzipOfOtherRows],
    budget: { runs: 2, claims: 3, failures: 1 },
  },
  'a store without conditions, requests at any time: true, but maybe of an earlier run': {
    ...base,
    store: none,
    promises: /^C[123]$/,
    configs: [gzip, gzipOfOtherRows],
    budget: { runs: 2, claims: 3 },
  },
  'a store without conditions, requests within the lease': {
    ...base,
    store: none,
    timely: true,
    configs: [gzip, gzipOfOtherRows],
    budget: { runs: 2, claims: 3, failures: 1, sweeps: 1 },
  },
  'a store without conditions and a restored database, requests within the lease': {
    ...base,
    store: none,
    timely: true,
    configs: [gzip, gzipOfOtherRows],
    budget: { runs: 2, claims: deep ? 3 : 2, restores: 1 },
  },
} satisfies Record<string, Scenario>;

/** What a store without conditions cannot promise: the shortest way to it. */
export const weaker = {
  'without If-Match, a put that lands after its lease replaces a newer manifest': {
    ...base,
    store: noIfMatch,
    configs: [gzip, gzipOfOtherRows],
    budget: { runs: 2, claims: 3, failures: 1 },
  },
  'without If-Match, a second copy of a put names files that are removed since': {
    ...base,
    store: noIfMatch,
    workers: 1,
    promises: /^C[123]$/,
    configs: [gzip, gzipOfOtherRows, gzip],
    budget: { runs: 3, claims: 3, echoes: 1 },
  },
  'without conditions, so does the first put of an interval': {
    ...base,
    store: none,
    configs: [gzip, gzipOfOtherRows],
    budget: { runs: 1, claims: 2 },
  },
} satisfies Record<string, Scenario>;

export type ScenarioName = keyof typeof scenarios;

/** A smallest world in which each mutant does its harm, and the invariants that may show it. */
export const mutantScenarios: Record<Mutant, readonly [Scenario, RegExp]> = {
  reuse_keys: [
    { ...base, configs: [gzip, plain, gzip], budget: { runs: 3, claims: 4 } },
    /^C[13]$/,
  ],
  overwrite_named_keys: [
    scenarios['two attempts, then a re-run with other bytes, with failures'],
    /^C1$/,
  ],
  unchanged_beside_a_sleeper: [
    { ...base, configs: [gzip, plain, gzip], budget: { runs: 3, claims: 3, failures: 1 } },
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
  fence_without_era: [
    { ...base, configs: [gzip, plain], budget: { runs: 1, claims: 3, restores: 1 } },
    /^C[1-6]$/,
  ],
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
