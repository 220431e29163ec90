/** Supplements, explored over all orders of the steps of attempts, of deaths and claims, and of what the source does. */

import { describe, expect, test } from 'vitest';
import { casesOf } from '../support/nightly.ts';
import { type Exploration, explore, type Model, type Move, Violation } from './explore.ts';

/**
 * Supplements beside runs that make an interval anew (docs/internals/guarantees.md, I9), step by step. Each step is one transaction of
 * our database, one look at the source or one request to the store. The commit itself is `test/model/commit`: here it is as
 * short as can be, at a store with conditional puts. Rows are letters.
 */

const mutants = {
  repeat_delivered: 'a supplement has all rows of the source, not only those that the files lack',
  drop_earlier_files: 'the manifest of a supplement names its own file only',
  remake_without_check: 'a run that makes the interval anew replaces files by fewer rows',
  add_to_the_receipt: 'a supplement adds to the files of our record, not to those of the manifest',
  put_without_tag: 'the manifest is put whatever is there',
  put_on_a_fresh_tag: 'the manifest is put on a tag that is read right before',
  remove_older_generations:
    'files of all earlier generations are removed, also those that are named',
} as const;
type Mutant = keyof typeof mutants;

type Purpose = 'whole' | 'supplement' | 'whole, drops';

interface File {
  readonly generation: number;
  readonly rows: string;
}

interface Manifest {
  readonly tag: string;
  readonly run: number;
  readonly generation: number;
  readonly files: readonly File[];
}

interface Attempt {
  readonly run: number;
  readonly fence: number;
  readonly purpose: Purpose;
  readonly generation: number;
  readonly step: 'read' | 'compare' | 'begin' | 'complete' | 'put' | 'record' | 'clean';
  readonly found: Manifest | null;
  /** What the attempt has made, and what the interval consists of then. */
  readonly made: string;
  readonly files: readonly File[];
  readonly committed: Manifest | null;
}

interface State {
  source: string;
  /** What current manifests have delivered, without what a person let go. */
  delivered: string;
  manifest: Manifest | null;
  objects: Record<number, string>;
  receipt: Manifest | null;
  /** The live run; null between two. */
  live: { run: number; fence: number; purpose: Purpose; intent: Manifest | null } | null;
  runs: number;
  generations: number;
  leftovers: number[];
  attempts: Attempt[];
  /** What may still happen. */
  left: { late: string; prunes: number; claims: number; givesUp: number; runs: readonly Purpose[] };
}

const rowsOf = (files: readonly File[]): string => files.map(({ rows }) => rows).join('');
const without = (rows: string, others: string) =>
  [...rows].filter((row) => !others.includes(row)).join('');

/** @returns the attempt at its next step; null if it has ended */
function take(state: State, attempt: Attempt, mutant: Mutant | null): Attempt | null {
  switch (attempt.step) {
    case 'read':
      return read(state, attempt);
    case 'compare':
      return compare(state, attempt, mutant);
    case 'begin': {
      const { live } = state;
      if (!live || !holds(state, attempt)) return null;
      live.intent = manifestOf(attempt);
      note(state, [attempt.generation]);
      return { ...attempt, step: 'complete' };
    }
    case 'complete':
      state.objects[attempt.generation] = attempt.made;
      return { ...attempt, step: 'put' };
    case 'put':
      return put(state, attempt, mutant);
    case 'record':
      return record(state, attempt);
    case 'clean':
      clean(state, mutant);
      return null;
  }
}

const holds = ({ live }: State, { run, fence }: Attempt) =>
  live?.run === run && live.fence === fence;

const note = (state: State, generations: readonly number[]) => {
  state.leftovers = [...new Set([...state.leftovers, ...generations])].sort();
};

const manifestOf = ({ run, fence, generation, files }: Attempt): Manifest => ({
  tag: `${run}.${fence}.${generation}`,
  run,
  generation,
  files,
});

/** An attempt that put its manifest and was not recorded is adopted by the next one of its run. */
function read({ manifest, live }: State, attempt: Attempt): Attempt {
  const intent = live?.run === attempt.run ? live.intent : null;
  const isOurs =
    intent !== null && manifest?.run === attempt.run && manifest.generation === intent.generation;
  if (isOurs) return { ...attempt, committed: manifest, step: 'record' };
  return { ...attempt, found: manifest, step: 'compare' };
}

function compare(
  { source, receipt }: State,
  attempt: Attempt,
  mutant: Mutant | null,
): Attempt | null {
  const { found, generation, purpose } = attempt;
  const isAtReceipt = found?.tag === receipt?.tag;
  if (purpose !== 'supplement') {
    const lacks = without(rowsOf(found?.files ?? []), source) !== '';
    if (lacks && purpose === 'whole' && mutant !== 'remake_without_check') return null;
    return { ...attempt, made: source, files: [{ generation, rows: source }], step: 'begin' };
  }
  const base = mutant === 'add_to_the_receipt' ? receipt : found;
  // Another commit than that of our record: a person decides.
  if (base === null || (!isAtReceipt && mutant !== 'add_to_the_receipt')) return null;
  const made = mutant === 'repeat_delivered' ? source : without(source, rowsOf(base.files));
  if (made === '') return null;
  const added = { generation, rows: made };
  const files = mutant === 'drop_earlier_files' ? [added] : [...base.files, added];
  return { ...attempt, made, files, step: 'begin' };
}

function put(state: State, attempt: Attempt, mutant: Mutant | null): Attempt | null {
  const expected = mutant === 'put_on_a_fresh_tag' ? state.manifest : attempt.found;
  const mayPut = mutant === 'put_without_tag' || state.manifest?.tag === expected?.tag;
  if (!mayPut) return null;
  const committed = manifestOf(attempt);
  state.manifest = committed;
  const rows = rowsOf(committed.files);
  const kept = attempt.purpose === 'whole, drops' ? '' : state.delivered;
  state.delivered = [...new Set(kept + rows)].sort().join('');
  return { ...attempt, committed, step: 'record' };
}

function record(state: State, attempt: Attempt): Attempt | null {
  const { committed } = attempt;
  if (!committed || !holds(state, attempt)) return null;
  const named = committed.files.map(({ generation }) => generation);
  const replaced = [...(state.receipt?.files ?? []), ...(attempt.found?.files ?? [])].map(
    ({ generation }) => generation,
  );
  note(state, replaced);
  state.leftovers = state.leftovers.filter((generation) => !named.includes(generation));
  state.receipt = committed;
  state.live = null;
  return { ...attempt, step: 'clean' };
}

function clean(state: State, mutant: Mutant | null): void {
  const { receipt, leftovers } = state;
  if (receipt === null) return;
  const all =
    mutant === 'remove_older_generations' ? Object.keys(state.objects).map(Number) : leftovers;
  const named = receipt.files.map(({ generation }) => generation);
  const isNamed = (generation: number) =>
    named.includes(generation) && mutant !== 'remove_older_generations';
  for (const generation of all) {
    if (generation < receipt.generation && !isNamed(generation)) delete state.objects[generation];
  }
  state.leftovers = leftovers.filter((generation) => state.objects[generation] !== undefined);
}

/** What must hold in every state. */
function check({ manifest, objects, delivered }: State): void {
  if (manifest === null) return;
  const rows = rowsOf(manifest.files);
  if (new Set(rows).size !== rows.length)
    throw new Violation('I3', `a row is there twice: ${rows}`);
  const gone = without(delivered, rows);
  if (gone !== '') throw new Violation('I9', `delivered rows are gone: ${gone}`);
  for (const { generation, rows: named } of manifest.files) {
    if (objects[generation] !== named)
      throw new Violation('I4', `file ${generation} is not as the manifest says`);
  }
}

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
