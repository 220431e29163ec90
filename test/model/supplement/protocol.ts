/**
 * Supplements beside runs that make an interval anew (docs/internals/guarantees.md, I9), step by step. Each step is one transaction of
 * our database, one look at the source or one request to the store. The commit itself is `test/model/commit`: here it is as
 * short as can be, at a store with conditional puts. Rows are letters.
 */

import { Violation } from '../explore.ts';

export const mutants = {
  repeat_delivered: 'a supplement has all rows of the source, not only those that the files lack',
  drop_earlier_files: 'the manifest of a supplement names its own file only',
  remake_without_check: 'a run that makes the interval anew replaces files by fewer rows',
  add_to_the_receipt: 'a supplement adds to the files of our record, not to those of the manifest',
  put_without_tag: 'the manifest is put whatever is there',
  put_on_a_fresh_tag: 'the manifest is put on a tag that is read right before',
  remove_older_generations:
    'files of all earlier generations are removed, also those that are named',
} as const;
export type Mutant = keyof typeof mutants;

export type Purpose = 'whole' | 'supplement' | 'whole, drops';

interface File {
  readonly generation: number;
  readonly rows: string;
}

export interface Manifest {
  readonly tag: string;
  readonly run: number;
  readonly generation: number;
  readonly files: readonly File[];
}

export interface Attempt {
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

export interface State {
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

export const rowsOf = (files: readonly File[]): string => files.map(({ rows }) => rows).join('');
const without = (rows: string, others: string) =>
  [...rows].filter((row) => !others.includes(row)).join('');

/** @returns the attempt at its next step; null if it has ended */
export function take(state: State, attempt: Attempt, mutant: Mutant | null): Attempt | null {
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
export function check({ manifest, objects, delivered }: State): void {
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
