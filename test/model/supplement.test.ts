/** Supplements, explored over all orders of the steps of attempts, of deaths and claims, and of what the source does. */

import { describe, expect, test } from 'vitest';
import { type Exploration, explore, type Model, type Move } from './explore.ts';
import {
  check,
  type Mutant,
  mutants,
  type Purpose,
  type State,
  take,
} from './supplement/protocol.ts';
import { casesOf } from '../support/nightly.ts';

interface Scenario {
  readonly runs: readonly Purpose[];
  readonly late: string;
  readonly prunes: number;
  readonly claims: number;
  readonly givesUp: number;
}

const base = { late: 'c', prunes: 1, claims: 1, givesUp: 1 };
const scenarios: Readonly<Record<string, Scenario>> = {
  'two supplements, one after the other': {
    ...{ late: 'cd', prunes: 1, claims: 0, givesUp: 1 },
    runs: ['supplement', 'supplement'],
  },
  'a re-run after a supplement': { ...base, runs: ['supplement', 'whole'] },
  'a supplement after a re-run': { ...base, runs: ['whole', 'supplement'] },
  'a person lets rows go, then a supplement': {
    ...{ late: 'c', prunes: 2, claims: 0, givesUp: 1 },
    runs: ['whole, drops', 'supplement'],
  },
  'a supplement that is frozen beside two others': {
    ...{ late: 'c', prunes: 0, claims: 0, givesUp: 1 },
    runs: ['supplement', 'supplement', 'whole'],
  },
};

function modelOf({ runs, ...left }: Scenario, mutant: Mutant | null): Model<State> {
  const first = { tag: 'first', run: 0, generation: 1, files: [{ generation: 1, rows: 'ab' }] };
  const start: State = {
    source: 'ab',
    delivered: 'ab',
    manifest: first,
    objects: { 1: 'ab' },
    receipt: first,
    live: null,
    runs: 1,
    generations: 1,
    leftovers: [],
    attempts: [],
    left: { ...left, runs },
  };
  const after = (state: State, change: (next: State) => void): State => {
    const next: State = JSON.parse(JSON.stringify(state));
    change(next);
    return next;
  };
  return {
    start,
    keyOf: (state) => JSON.stringify(state),
    check,
    movesOf: (state) => movesOf(state),
  };

  function movesOf(state: State): readonly Move<State>[] {
    const { left: more, live, attempts } = state;
    const moves: Move<State>[] = [];
    const add = (label: string, change: (next: State) => void) =>
      moves.push({ label, next: () => after(state, change) });
    const [row] = more.late;
    if (row) {
      add(`row ${row} comes late`, (next) => {
        next.source += row;
        next.left.late = more.late.slice(1);
      });
    }
    const gone = state.source.at(-1);
    if (gone && more.prunes > 0) {
      add(`row ${gone} leaves the source`, (next) => {
        next.source = next.source.slice(0, -1);
        next.left.prunes -= 1;
      });
    }
    const [purpose] = more.runs;
    if (!live && purpose) {
      add(`a run is made: ${purpose}`, (next) => {
        next.live = { run: next.runs, fence: 0, purpose, intent: null };
        next.runs += 1;
        next.left.runs = more.runs.slice(1);
        claim(next);
      });
    }
    if (live && more.claims > 0) {
      add(`run ${live.run} is claimed again`, (next) => {
        next.left.claims -= 1;
        claim(next);
      });
    }
    if (live && more.givesUp > 0) {
      add(`run ${live.run} ends without success`, (next) => {
        next.left.givesUp -= 1;
        next.live = null;
      });
    }
    for (const [index, attempt] of attempts.entries()) {
      add(`attempt ${attempt.run}.${attempt.fence}: ${attempt.step}`, (next) => {
        const ended = next.attempts[index];
        const now = ended ? take(next, ended, mutant) : null;
        next.attempts = next.attempts.flatMap((one, at) => (at === index ? (now ?? []) : one));
      });
    }
    return moves;
  }
}

/** Every lineage has a generation of its own; an attempt that never began to commit is continued, which changes nothing here. */
function claim(state: State): void {
  const { live } = state;
  if (!live) return;
  live.fence += 1;
  state.generations += 1;
  const { run, fence, purpose } = live;
  const nothing = { found: null, made: '', files: [], committed: null };
  state.attempts.push({
    run,
    fence,
    purpose,
    generation: state.generations,
    step: 'read',
    ...nothing,
  });
}

describe('no state breaks an invariant:', () => {
  test.each(Object.entries(scenarios))('%s', (name, scenario) => {
    const { states, depth, violation } = explore(modelOf(scenario, null));
    expect(violation?.text).toBeUndefined();
    console.log(`${name}: ${states} states, depth ${depth}`);
  });
});

/** By day without the one that takes most of the time. */
const byDay = (Object.keys(mutants) as Mutant[]).filter(
  (mutant) => mutant !== 'add_to_the_receipt',
);

describe('the model finds what is put in on purpose:', () => {
  test.each(casesOf<Mutant>(byDay, ['add_to_the_receipt']))('%s', (mutant) => {
    let found: Exploration['violation'] = null;
    for (const scenario of Object.values(scenarios)) {
      found ??= explore(modelOf(scenario, mutant)).violation;
    }
    console.log(`${mutant} (${mutants[mutant]})\n${found?.text}`);
    expect(found?.invariant).toMatch(/^I[349]$/);
  });
});
