/** Which waiting runs enter the queue next: the dispatcher's choice, as a function. */

import type { Instant } from '../domain/time.ts';

/** A run as the dispatcher sees it, waiting or in flight. */
export interface DispatchedRun {
  readonly runId: string;
  readonly tenantId: number;
  readonly exportId: string;
  /** Null for a live run. */
  readonly backfillId: string | null;
  readonly intervalStart: Instant;
}

export interface DispatchLimits {
  /** Runs of one tenant in flight. */
  readonly perTenant: number;
  /** Live runs of one export in flight. */
  readonly perExport: number;
  /** Runs of one backfill in flight; they take nothing from the live runs of their export. */
  readonly perBackfill: (backfillId: string) => number;
}

/** From this number of slots on, one is left to other tenants. */
const sharedFrom = 4;

/**
 * Runs of one tenant that may be in flight: all slots of the workers, but of four or more all but one. So a
 * tenant whose runs never end does not keep others from starting, and no slot is idle if two tenants have
 * work.
 *
 * @param capacity slots of all workers
 */
export function tenantShare(capacity: number): number {
  return capacity >= sharedFrom ? capacity - 1 : Number.POSITIVE_INFINITY;
}

/**
 * The runs to dispatch into `slots` free slots, best first.
 *
 * Tenants take turns: the one with the fewest runs in flight goes first, counting those chosen here. Within
 * a tenant live runs go before backfills, then the oldest interval. Tenants with the same number are
 * ordered in the same way. The result does not depend on the order of `candidates`. O(n log n).
 *
 * Small tenants get in at once only while `perTenant` is below the number of the workers' slots.
 *
 * @param candidates waiting runs. A query with a limit must limit per export: one common limit would let
 *   one busy export hide all others.
 * @param inFlight runs that are queued or being executed
 */
export function pickFair<Run extends DispatchedRun>(
  candidates: readonly Run[],
  inFlight: readonly DispatchedRun[],
  limits: DispatchLimits,
  slots: number,
): readonly Run[] {
  const lanes = new Map<string, number>();
  const tenants = new Map<number, number>();
  for (const run of inFlight) {
    add(lanes, laneOf(run));
    add(tenants, run.tenantId);
  }
  const turns: { readonly run: Run; readonly turn: number }[] = [];
  for (const run of candidates.toSorted(compareRuns)) {
    const lane = laneOf(run);
    const turn = tenants.get(run.tenantId) ?? 0;
    if (turn >= limits.perTenant || (lanes.get(lane) ?? 0) >= laneLimit(run, limits)) continue;
    add(lanes, lane);
    add(tenants, run.tenantId);
    turns.push({ run, turn });
  }
  return turns
    .sort((a, b) => a.turn - b.turn || compareRuns(a.run, b.run))
    .slice(0, Math.max(slots, 0))
    .map(({ run }) => run);
}

function add<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function laneOf(run: DispatchedRun): string {
  return run.backfillId === null ? `live ${run.exportId}` : `backfill ${run.backfillId}`;
}

function laneLimit(run: DispatchedRun, limits: DispatchLimits): number {
  return run.backfillId === null ? limits.perExport : limits.perBackfill(run.backfillId);
}

function compareRuns(a: DispatchedRun, b: DispatchedRun): number {
  return (
    Number(a.backfillId !== null) - Number(b.backfillId !== null) ||
    a.intervalStart - b.intervalStart ||
    a.tenantId - b.tenantId ||
    (a.runId < b.runId ? -1 : Number(a.runId > b.runId))
  );
}
