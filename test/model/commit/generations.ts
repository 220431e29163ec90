import { Violation } from '../explore.ts';
import { lastRun, type Manifest, type State } from './state.ts';

/** A number that no lineage had: above all runs, the receipt, and the manifests that were read. */
export function allocate(state: State, floor: readonly (Manifest | null)[]): number {
  const { runs, receipt } = state.db;
  const highest = (all: readonly ({ generation: number } | null)[]) =>
    all.reduce((max, one) => Math.max(max, one?.generation ?? 0), 0);
  return give(state, 1 + highest([...runs, receipt, ...floor]));
}

export function give(state: State, generation: number): number {
  const { given, restored } = state.seen;
  if (given.includes(generation) && !restored)
    throw new Violation('C2', `generation ${generation} is given out twice`);
  if (!given.includes(generation)) given.push(generation);
  const run = lastRun(state.db);
  if (run) run.generation = generation;
  return generation;
}
