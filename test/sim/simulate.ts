import fc from 'fast-check';
import { anyHistory, type History } from './actions.ts';
import { checkAlways, checkSettled, createWitness, settle } from './invariants.ts';
import type { Defect } from './model-store.ts';
import { act, createWorld } from './world.ts';

/** What a batch of histories came to, so that an idle simulator is seen. */
export interface Tally {
  histories: number;
  actions: number;
  runs: number;
  completed: number;
}

/** Plays one history with all checks; throws at the first thing that does not hold. */
export function playHistory(history: History, defect: Defect | null, tally?: Tally): void {
  const world = createWorld(history.createdAt, history.settings, defect);
  const witness = createWitness();
  for (const action of history.actions) {
    act(world, action);
    checkAlways(world, witness);
  }
  settle(world);
  checkAlways(world, witness);
  checkSettled(world);
  if (tally === undefined) return;
  tally.histories += 1;
  tally.actions += history.actions.length;
  tally.runs += world.store.runs.length;
  tally.completed += world.store.runs.filter(({ status }) => status === 'Completed').length;
}

/**
 * Plays `runs` histories drawn from `seed`.
 *
 * @returns fast-check's account: `failed`, and the shortest failing history it found
 */
export function simulate(
  seed: number,
  runs: number,
  defect: Defect | null = null,
  tally?: Tally,
): fc.RunDetails<[History]> {
  return fc.check(
    fc.property(anyHistory, (history) => playHistory(history, defect, tally)),
    { seed, numRuns: runs },
  );
}
