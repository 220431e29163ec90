/** Which waiting runs enter the queue next: the dispatcher's choice, as a function. */

import type { QueuedRun } from '../../foundation/domain/run.ts';

export interface DispatchLimits {
  /** Runs in flight of all projects of one organization. */
  readonly perOrganization: (organizationId: string) => number;
  /** Runs of one project in flight. */
  readonly perProject: number;
  /** Live runs of one export in flight. */
  readonly perExport: number;
  /** Runs of one backfill in flight; they take nothing from the live runs of their export. */
  readonly perBackfill: (backfillId: string) => number;
  /** Runs of one project that have a turn together: small runs share a snapshot of the source; default: 1. */
  readonly perTurn?: number;
}

/** From this number of slots on, one is left to other tenants. */
const sharedFrom = 4;

/**
 * Runs of one organization that may be in flight: all slots of the workers, but of four or more all but one.
 * So a tenant whose runs never end does not keep others from starting, and no slot is idle if two tenants
 * have work.
 *
 * @param capacity slots of all workers
 */
export function organizationShare(capacity: number): number {
  return capacity >= sharedFrom ? capacity - 1 : Number.POSITIVE_INFINITY;
}

/**
 * Runs that heal of all organizations that may be in flight: a quarter of the slots. A place that hangs holds no more of them.
 *
 * @param capacity slots of all workers
 */
export const healingShare = (capacity: number): number => Math.max(1, Math.floor(capacity / 4));

/** Whether a run heals its interval: then its lane is its export. */
export const heals = ({ backfillId, exportId }: QueuedRun): boolean => backfillId === exportId;

/** An organization that is crowded keeps one slot out of this many. */
const crowdedPart = 8;

/**
 * Runs of one organization that may be in flight while it crowds others: the processors have too much to do,
 * and other organizations are active. Each slot more would slow them down.
 *
 * @param capacity slots of all workers
 * @param perTurn runs that have a turn together: fewer would only make each of them dearer
 */
export function crowdedShare(capacity: number, perTurn = 1): number {
  return Math.min(
    organizationShare(capacity),
    Math.max(perTurn, Math.floor(capacity / crowdedPart)),
  );
}

/**
 * The runs to dispatch into `slots` free slots, best first.
 *
 * Organizations take turns: the one with the fewest runs in flight goes first, counting those chosen here.
 * The projects of an organization share its turns in the same way. Within a project live runs go before
 * backfills, then the oldest interval. Those with the same number are ordered like this too. If several runs have a turn
 * together, all of them are live, or none. The result does not depend on the order of `candidates`. O(n log n).
 *
 * Small tenants get in at once only while `perOrganization` is below the number of the workers' slots.
 *
 * @param candidates waiting runs. A query with a limit must limit per export: one common limit would let
 *   one busy export hide all others.
 * @param inFlight runs that are queued or being executed
 * @param beside runs in flight that use other slots: they count for the limits of their export and backfill
 */
export function pickFair<Run extends QueuedRun>(
  candidates: readonly Run[],
  inFlight: readonly QueuedRun[],
  limits: DispatchLimits,
  slots: number,
  beside: readonly QueuedRun[] = [],
): readonly Run[] {
  const lanes = countBy([...inFlight, ...beside], laneOf);
  const fits = (run: Run): boolean => {
    const lane = laneOf(run);
    if ((lanes.get(lane) ?? 0) >= laneLimit(run, limits)) return false;
    add(lanes, lane);
    return true;
  };
  const projects = countBy(inFlight, ({ projectId }) => projectId);
  const organizations = countBy(inFlight, ({ organizationId }) => organizationId);
  const { perProject, perOrganization, perTurn = 1 } = limits;
  const ordered = candidates.toSorted(compareRuns);
  const ofProjects = takeTurns(ordered, {
    taken: projects,
    keyOf: ({ projectId }) => projectId,
    limitOf: () => perProject,
    perTurn,
    fits,
  });
  const inTurn = takeTurns(ofProjects, {
    taken: organizations,
    keyOf: ({ organizationId }) => organizationId,
    limitOf: perOrganization,
    perTurn,
  });
  return inTurn.slice(0, Math.max(slots, 0));
}

/** The turn that a key has now. */
interface Turn<Run> {
  readonly number: number;
  /** The run that goes first in it; null: the turn began with runs in flight. */
  readonly first: Run | null;
  readonly left: number;
}

interface TurnRules<Run, Key> {
  /** Runs of each key that count already. Those that are chosen are added. */
  readonly taken: Map<Key, number>;
  readonly keyOf: (run: Run) => Key;
  readonly limitOf: (key: Key) => number;
  readonly perTurn: number;
  readonly fits?: (run: Run) => boolean;
}

/** Keeps the order within each key, and lets the keys take turns. */
function takeTurns<Run extends QueuedRun, Key>(
  runs: readonly Run[],
  { taken, keyOf, limitOf, perTurn, fits = () => true }: TurnRules<Run, Key>,
): readonly Run[] {
  const turns = new Map<Key, Turn<Run>>();
  const chosen: { readonly run: Run; readonly turn: number; readonly first: Run }[] = [];
  for (const run of runs) {
    const key = keyOf(run);
    const count = taken.get(key) ?? 0;
    if (count >= limitOf(key) || !fits(run)) continue;
    taken.set(key, count + 1);
    const { number, first, left } = turnOf(
      turns.get(key) ?? afterTurns(count, perTurn),
      run,
      perTurn,
    );
    turns.set(key, { number, first, left: left - 1 });
    chosen.push({ run, turn: number, first });
  }
  return chosen
    .sort((a, b) => a.turn - b.turn || compareRuns(a.first, b.first))
    .map(({ run }) => run);
}

const afterTurns = (taken: number, perTurn: number): Turn<never> => ({
  number: Math.floor(taken / perTurn),
  first: null,
  left: perTurn - (taken % perTurn),
});

/** The turn of the next run: the same if it has room for one of its kind. */
function turnOf<Run extends QueuedRun>(
  { number, first, left }: Turn<Run>,
  run: Run,
  perTurn: number,
): Turn<Run> & { readonly first: Run } {
  if (first === null) return { number, first: run, left };
  const isSameKind = (first.backfillId === null) === (run.backfillId === null);
  if (left > 0 && isSameKind) return { number, first, left };
  return { number: number + 1, first: run, left: perTurn };
}

function countBy<Key>(
  runs: readonly QueuedRun[],
  keyOf: (run: QueuedRun) => Key,
): Map<Key, number> {
  const counts = new Map<Key, number>();
  for (const run of runs) add(counts, keyOf(run));
  return counts;
}

function add<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function laneOf(run: QueuedRun): string {
  return run.backfillId === null ? `live ${run.exportId}` : `backfill ${run.backfillId}`;
}

function laneLimit(run: QueuedRun, limits: DispatchLimits): number {
  return run.backfillId === null ? limits.perExport : limits.perBackfill(run.backfillId);
}

function compareRuns(a: QueuedRun, b: QueuedRun): number {
  return (
    Number(a.backfillId !== null) - Number(b.backfillId !== null) ||
    a.intervalStart - b.intervalStart ||
    a.projectId - b.projectId ||
    (a.runId < b.runId ? -1 : Number(a.runId > b.runId))
  );
}
