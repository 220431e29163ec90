/** Settling as docs/internals/guarantees.md has it, explored over all orders of its reads and of the writers. */

import { describe, expect, test } from 'vitest';
import { explore } from './explore.ts';
import { type Mutant, mutants } from './settle/protocol.ts';
import { type Scenario, settleModel } from './settle/world.ts';
import { casesOf } from '../support/nightly.ts';

const base = { mutant: null, sessions: [2], isStandby: false, isBounded: false };

const scenarios: Record<string, Scenario> = {
  'a message of two transactions': { ...base, sessions: [2] },
  'a message of two transactions, a wait that hits its bound, look-backs': {
    ...base,
    sessions: [2],
    isBounded: true,
  },
  'such a message of a session to our own tables': { ...base, sessions: [2], store: [0] },
  'a run that goes back to the outbox, workers that die and freeze': {
    ...base,
    sessions: [1],
    goesBack: true,
  },
  'a standby with its primary': { ...base, sessions: [1], isStandby: true, isBounded: true },
};

const mutantScenarios: Partial<Record<Mutant, Partial<Scenario>>> = {
  any_prepared: { sessions: [1, 1], isBounded: true },
  standby_alone: { isStandby: true },
  no_wait_for_replay: { isStandby: true },
  position_first: { isStandby: true },
  prepared_first: { sessions: [1] },
  store_left_out: { sessions: [1], store: [0] },
  nothing_saved: { goesBack: true },
  saved_mid_look: { sessions: [1], goesBack: true },
};

// Seconds to a minute by themselves. By day only the mutant `any_prepared` has two messages.
if (process.env.MODEL === 'deep') {
  scenarios['a message of two transactions at a standby'] = {
    ...base,
    isStandby: true,
    isBounded: true,
  };
  scenarios['a message of two transactions, a run that goes back to the outbox'] = {
    ...base,
    goesBack: true,
  };
  scenarios['two messages side by side'] = { ...base, sessions: [1, 1] };
  scenarios['two messages side by side, one of a session to our own tables'] = {
    ...base,
    sessions: [1, 1],
    store: [0],
  };
  scenarios['two messages, a wait that hits its bound, look-backs'] = {
    ...base,
    sessions: [1, 1],
    isBounded: true,
  };
}

describe('no state breaks an invariant:', () => {
  test.each(Object.entries(scenarios))('%s', (name, scenario) => {
    const { states, depth, violation } = explore(settleModel(scenario));
    expect(violation?.text).toBeUndefined();
    console.log(`${name}: ${states} states, depth ${depth}`);
  });
});

/** By day without the one that takes most of the time. */
const byDay = (Object.keys(mutants) as Mutant[]).filter((mutant) => mutant !== 'any_prepared');

describe('the model finds what is put in on purpose:', () => {
  test.each(casesOf<Mutant>(byDay, ['any_prepared']))('%s', (mutant) => {
    const scenario = { ...base, ...mutantScenarios[mutant], mutant };
    const { states, violation } = explore(settleModel(scenario));
    console.log(`${mutant} (${mutants[mutant]}), ${states} states\n${violation?.text}`);
    expect(violation?.invariant).toBe(mutant === 'any_prepared' ? 'S2' : 'S1');
  });
});
