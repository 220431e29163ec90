import { type DispatchLimits, pickFair } from '../../scheduling/fairness.ts';
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

/** A run that is unclaimed for so long is enqueued again: the queue may have lost it. */
const retellAfterMs = 5_000;

/** Waiting runs of one team that are looked at in one go. */
const candidatesPerTeam = 200;

/** A run to tell the queue of. */
export interface QueueEntry {
  readonly runId: string;
  /** The queue may hold each of these once; the same run gets a new one now and then. */
  readonly ring: string;
}

/**
 * Lets waiting runs into the queue: as many as keep about twice the workers' capacity waiting
 * there, chosen fairly among tenants. Any number of workers may call it at once.
 *
 * @param tell adds runs to the queue; throws where the queue is away
 * @returns how many runs were let in
 */
export async function dispatchRuns(
  context: Context,
  tell: (entries: readonly QueueEntry[]) => Promise<void>,
): Promise<number> {
  const { picked, rings } = await context.db.transaction(async (tx) => {
    await lockDispatch(tx);
    await markReady(tx);
    const unanswered = await findUnanswered(tx, retellAfterMs);
    const slots = 2 * (await sumCapacity(tx)) - (await countDispatched(tx));
    const chosen = slots > 0 ? await choose(tx, context, slots) : [];
    const rings = await markDispatched(tx, [...chosen, ...unanswered]);
    return { picked: chosen, rings: inOrderOf([...chosen, ...unanswered], rings) };
  });
  try {
    await tell(rings.map(toEntry));
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

async function choose(tx: Sql, context: Context, slots: number): Promise<string[]> {
  const { maxRunsPerExport, maxRunsPerTenant } = context.policy;
  const limits: DispatchLimits = {
    perTenant: maxRunsPerTenant,
    perExport: maxRunsPerExport,
    // A backfill has no more live runs than its concurrency in the first place.
    perBackfill: () => Number.POSITIVE_INFINITY,
  };
  const waiting = await findWaiting(tx, candidatesPerTeam);
  const flooded = findFlooded(waiting, maxRunsPerExport);
  const candidates =
    flooded.size === 0
      ? waiting
      : [
          ...waiting.filter((run) => !flooded.has(run.tenantId)),
          ...(await findWaitingByExport(tx, [...flooded], maxRunsPerExport, candidatesPerTeam)),
        ];
  return pickFair(candidates, await listInFlight(tx), limits, slots).map((run) => run.runId);
}

/** Teams of whose list one export takes more than it may run: it may hide their other runs. */
function findFlooded(waiting: readonly QueuedRun[], perExport: number): ReadonlySet<number> {
  const perTeam = new Map<number, number>();
  const perLane = new Map<string, number>();
  const crowded = new Set<number>();
  for (const { tenantId, exportId, backfillId } of waiting) {
    perTeam.set(tenantId, (perTeam.get(tenantId) ?? 0) + 1);
    if (backfillId !== null) continue;
    const inLane = (perLane.get(exportId) ?? 0) + 1;
    perLane.set(exportId, inLane);
    if (inLane > perExport) crowded.add(tenantId);
  }
  return new Set([...crowded].filter((id) => perTeam.get(id) === candidatesPerTeam));
}

/**
 * The queue takes an entry once while it holds it. One that lost the job, or whose worker ended with
 * the job just fetched, may still believe that it holds it, so each doubling of its deliveries makes
 * a new entry: already the second.
 */
function toEntry({ runId, deliveries }: EnqueuedRun): QueueEntry {
  return { runId, ring: `${runId}.${Math.floor(Math.log2(deliveries))}` };
}
