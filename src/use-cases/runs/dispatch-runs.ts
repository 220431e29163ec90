import { type DispatchLimits, organizationShare, pickFair } from '../../scheduling/fairness.ts';
import type { Sql } from '../../store/database.ts';
import {
  countDispatched,
  type EnqueuedRun,
  findUnanswered,
  findWaiting,
  findWaitingByExport,
  listInFlight,
  lockDispatch,
  markDispatched,
  markReady,
  type QueuedRun,
  unmarkDispatched,
} from '../../store/outbox.ts';
import { sumCapacity } from '../../store/workers.ts';
import type { Context } from '../context.ts';

/** A run that is unclaimed after this time is enqueued again: the queue may have lost it. */
const enqueueAgainAfterMs = 5_000;

/** Maximum waiting runs of one team considered by one call. */
const candidatesPerTeam = 200;

/** A run to enqueue. */
export interface QueueEntry {
  readonly runId: string;
  /** The deduplication id: the queue holds it at most once. A run that is enqueued again may get a new one. */
  readonly ring: string;
}

/**
 * Enqueues waiting runs, chosen fairly among tenants, until the queue holds about twice as many as the
 * workers have slots. Any number of workers may call it at once. Of four or more slots one
 * organization never has all.
 *
 * @param enqueue adds runs to the queue; throws if the queue is unreachable
 * @returns how many runs were enqueued for the first time
 */
export async function dispatchRuns(
  context: Context,
  enqueue: (entries: readonly QueueEntry[]) => Promise<void>,
): Promise<number> {
  const { picked, rings } = await context.db.transaction(async (tx) => {
    await lockDispatch(tx);
    await markReady(tx);
    const unanswered = await findUnanswered(tx, enqueueAgainAfterMs);
    const capacity = await sumCapacity(tx);
    const slots = 2 * capacity - (await countDispatched(tx));
    const chosen = slots > 0 ? await choose(tx, context, slots, capacity) : [];
    const rings = await markDispatched(tx, [...chosen, ...unanswered]);
    return { picked: chosen, rings: inOrderOf([...chosen, ...unanswered], rings) };
  });
  try {
    await enqueue(rings.map(toEntry));
  } catch (error) {
    await unmarkDispatched(context.db, picked);
    throw error;
  }
  return picked.length;
}

function inOrderOf(runIds: readonly string[], rings: readonly EnqueuedRun[]): EnqueuedRun[] {
  const byRun = new Map(rings.map((ring) => [ring.runId, ring]));
  return runIds.flatMap((runId) => byRun.get(runId) ?? []);
}

async function choose(
  tx: Sql,
  context: Context,
  slots: number,
  capacity: number,
): Promise<string[]> {
  const { maxRunsPerExport, maxRunsPerTenant } = context.policy;
  const limits: DispatchLimits = {
    perOrganization: organizationShare(capacity),
    perProject: maxRunsPerTenant,
    perExport: maxRunsPerExport,
    // A backfill never creates more live runs than its concurrency.
    perBackfill: () => Number.POSITIVE_INFINITY,
  };
  const waiting = await findWaiting(tx, candidatesPerTeam);
  const flooded = findFlooded(waiting, maxRunsPerExport);
  const candidates =
    flooded.size === 0
      ? waiting
      : [
          ...waiting.filter((run) => !flooded.has(run.projectId)),
          ...(await findWaitingByExport(tx, [...flooded], maxRunsPerExport, candidatesPerTeam)),
        ];
  return pickFair(candidates, await listInFlight(tx), limits, slots).map((run) => run.runId);
}

/** Teams with a full list in which one export has more runs than it may execute: it may hide other exports. */
function findFlooded(waiting: readonly QueuedRun[], perExport: number): ReadonlySet<number> {
  const perTeam = new Map<number, number>();
  const perLane = new Map<string, number>();
  const crowded = new Set<number>();
  for (const { projectId, exportId, backfillId } of waiting) {
    perTeam.set(projectId, (perTeam.get(projectId) ?? 0) + 1);
    if (backfillId !== null) continue;
    const inLane = (perLane.get(exportId) ?? 0) + 1;
    perLane.set(exportId, inLane);
    if (inLane > perExport) crowded.add(projectId);
  }
  return new Set([...crowded].filter((id) => perTeam.get(id) === candidatesPerTeam));
}

/**
 * The queue refuses an entry that it already holds. If it lost the job, or the worker crashed just after
 * it fetched the job, the queue may still hold the id. So the id changes with each doubling of the
 * deliveries, for the first time at the second.
 */
function toEntry({ runId, deliveries }: EnqueuedRun): QueueEntry {
  return { runId, ring: `${runId}.${Math.floor(Math.log2(deliveries))}` };
}
