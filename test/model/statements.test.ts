/**
 * How statements reach a bucket (docs/receipts.md), step by step: two workers that die and freeze at each step, a database that is
 * restored, an export that moves. Each step is one transaction of our database, or one request to a store with conditional puts.
 */

import { expect, test } from 'vitest';
import { explore, type Model, Violation } from './explore.ts';

const mutants = {
  put_any: 'a worker puts any statement that waits, not the next one',
  put_unconditionally: 'a statement is put whatever is there',
  note_other_bytes: 'a worker notes a put though our database has other bytes at the number',
  conflict_is_ours: 'an object at the number counts as ours, whatever it has',
  note_without_place: 'a worker notes a put though the export has moved meanwhile',
  keep_the_mark: 'after a move only later statements are put at the new place',
  forget_foreign: 'statements that the database lacked are not stored',
} as const;
type Mutant = keyof typeof mutants;

/** Its text is its bytes. */
interface Statement {
  readonly number: number;
  readonly chain: number;
  /** The bytes of the one before; null: it begins a chain. */
  readonly previous: string | null;
  readonly last: number;
  /** Which make it was of: two makes never have the same bytes. */
  readonly made: number;
}
const bytesOf = (statement: Statement) => JSON.stringify(statement);

interface Database {
  readonly statements: Readonly<Record<number, string>>;
  readonly number: number;
  readonly chain: number;
  readonly begins: number | null;
  readonly export: number;
  readonly place: number;
  readonly put: number;
}

interface Worker {
  readonly step: 'put' | 'note' | 'look';
  readonly place: number;
  readonly number: number;
  readonly bytes: string;
}

interface State {
  readonly db: Database;
  readonly backup: Database | null;
  /** By place. */
  readonly bucket: readonly Readonly<Record<number, string>>[];
  readonly workers: readonly (Worker | null)[];
  readonly makes: number;
  readonly left: { readonly makes: number; readonly moves: number; readonly restores: number };
}

const empty: Database = {
  ...{ statements: {}, number: 0, chain: 1, begins: 0, export: 0, place: 0, put: 0 },
};

function make(state: State): State {
  const { db, makes } = state;
  const number = db.number + 1;
  const begins = db.begins !== null;
  const chain = begins && number > 1 ? 10 + makes : db.chain;
  const previous = begins ? null : (db.statements[db.number] ?? '');
  const last = begins ? (db.begins ?? 0) : 0;
  const bytes = bytesOf({ number, chain, previous, last, made: makes });
  const statements = { ...db.statements, [number]: bytes };
  return {
    ...state,
    makes: makes + 1,
    left: { ...state.left, makes: state.left.makes - 1 },
    db: { ...db, statements, number, chain, begins: null },
  };
}

const withWorker = (state: State, index: number, worker: Worker | null): State => ({
  ...state,
  workers: state.workers.map((one, at) => (at === index ? worker : one)),
});

/** Reads what is to put, in one transaction. */
function take(state: State, index: number, mutant: Mutant | null): State[] {
  let { db } = state;
  if (db.place !== db.export) {
    db = { ...db, place: db.export, put: mutant === 'keep_the_mark' ? db.put : 0 };
  }
  const numbers = Object.keys(db.statements)
    .map(Number)
    .filter((number) => number > db.put);
  const next = mutant === 'put_any' || db.put >= db.number ? numbers : [db.put + 1];
  return next.map((number) => {
    // Nothing is put for a number that our database lacks.
    if (db.statements[number] === undefined) return { ...state, db: { ...db, put: number } };
    const worker = {
      step: 'put',
      place: db.place,
      number,
      bytes: db.statements[number] ?? '',
    } as const;
    return withWorker({ ...state, db }, index, worker);
  });
}

function put(state: State, index: number, worker: Worker, mutant: Mutant | null): State {
  const { place, number, bytes } = worker;
  const bucket = state.bucket[place] ?? {};
  const there = bucket[number];
  const isFree = there === undefined || mutant === 'put_unconditionally';
  if (!isFree && there !== bytes && mutant !== 'conflict_is_ours') {
    return withWorker(state, index, { ...worker, step: 'look' });
  }
  const objects = isFree ? { ...bucket, [number]: bytes } : bucket;
  const buckets = state.bucket.map((one, at) => (at === place ? objects : one));
  return withWorker({ ...state, bucket: buckets }, index, { ...worker, step: 'note' });
}

function note(state: State, index: number, worker: Worker, mutant: Mutant | null): State {
  const { db } = state;
  const isHere = db.place === worker.place || mutant === 'note_without_place';
  const isNext = db.put === worker.number - 1 || mutant === 'put_any';
  const isOurs = db.statements[worker.number] === worker.bytes || mutant === 'note_other_bytes';
  const may = isHere && isNext && isOurs && db.number >= worker.number;
  const after = may ? { ...db, put: worker.number } : db;
  return withWorker({ ...state, db: after }, index, null);
}

/** Finds what the database lacks, then begins a chain after it. */
function look(state: State, index: number, worker: Worker, mutant: Mutant | null): State {
  const { db } = state;
  const { number, place, bytes } = worker;
  const ended = withWorker(state, index, null);
  if (db.place !== place || db.statements[number] !== bytes) return ended;
  const bucket = state.bucket[place] ?? {};
  let last = number - 1;
  while (bucket[last + 1] !== undefined) last += 1;
  const kept = Object.entries(db.statements).filter(([name]) => Number(name) < number);
  const foreign = Object.entries(bucket).filter(([name]) => Number(name) >= number);
  const stored = mutant === 'forget_foreign' ? kept : [...kept, ...foreign];
  const statements = Object.fromEntries(stored);
  return { ...ended, db: { ...db, statements, number: last, begins: last, put: last } };
}

function modelOf(mutant: Mutant | null, left: State['left']): Model<State> {
  const start = {
    db: empty,
    backup: null,
    bucket: [{}, {}],
    workers: [null, null],
    makes: 0,
    left,
  };
  return {
    start,
    keyOf: (state) => JSON.stringify(state),
    movesOf(state) {
      const { db, left, backup } = state;
      const moves: { label: string; next: () => State }[] = [];
      const add = (label: string, next: () => State) => moves.push({ label, next });
      if (left.makes > 0) add('make', () => make(state));
      if (left.moves > 0) {
        const moved = { ...db, export: 1 - db.export };
        add('move', () => ({ ...state, db: moved, left: { ...left, moves: left.moves - 1 } }));
      }
      if (left.restores > 0) {
        if (backup === null) add('back up', () => ({ ...state, backup: db }));
        else {
          const restored = { ...left, restores: left.restores - 1 };
          add('restore', () => ({ ...state, db: backup, left: restored }));
        }
      }
      state.workers.forEach((worker, index) => {
        if (worker !== null) add(`worker ${index} dies`, () => withWorker(state, index, null));
        if (worker === null) {
          for (const taken of take(state, index, mutant)) add(`worker ${index} takes`, () => taken);
        } else if (worker.step === 'put') {
          add(`worker ${index} puts ${worker.number}`, () => put(state, index, worker, mutant));
        } else if (worker.step === 'note') {
          add(`worker ${index} notes ${worker.number}`, () => note(state, index, worker, mutant));
        } else add(`worker ${index} looks`, () => look(state, index, worker, mutant));
      });
      return moves;
    },
    check({ bucket, db }) {
      for (const objects of bucket) checkChain(objects);
      const here = bucket[db.place] ?? {};
      for (let number = 1; number <= db.put; number += 1) {
        if (here[number] === undefined)
          throw new Violation('skip', `${number} is noted, not there`);
      }
    },
  };
}

/** What a checker finds in a bucket. */
function checkChain(objects: Readonly<Record<number, string>>): void {
  const numbers = Object.keys(objects).map(Number);
  for (const number of numbers) {
    if (number > 1 && objects[number - 1] === undefined)
      throw new Violation('skip', `no ${number - 1}`);
    const { previous, last, ...own } = JSON.parse(objects[number] ?? '') as Statement;
    if (own.number !== number) throw new Violation('fork', `${own.number} is at ${number}`);
    const isRight = previous === null ? last === number - 1 : previous === objects[number - 1];
    if (!isRight) throw new Violation('fork', `${number} does not follow ${number - 1}`);
  }
}

const scenarios = {
  'two workers, an export that moves away and back': { makes: 3, moves: 2, restores: 0 },
  'a database that is restored': { makes: 3, moves: 0, restores: 1 },
  'a restored database and a move': { makes: 2, moves: 1, restores: 1 },
} as const;

test.each(Object.entries(scenarios))('the chain neither forks nor skips: %s', (_, left) => {
  const { violation, states } = explore(modelOf(null, left));
  expect(violation?.text ?? null).toBeNull();
  expect(states).toBeGreaterThan(500);
});

test.each(Object.keys(mutants) as Mutant[])('finds the mutant %s', (mutant) => {
  const isFound = (left: State['left']) => explore(modelOf(mutant, left)).violation !== null;
  expect(Object.values(scenarios).some(isFound)).toBe(true);
});
