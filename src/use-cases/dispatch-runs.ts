import { type DispatchedRun, type DispatchLimits, pickFair } from '../scheduling/fairness.ts';
import {
  countDispatched,
  findUnanswered,
  findWaiting,
  listInFlight,
  lockDispatch,
  markDispatched,
  unmarkDispatched,
} from '../store/outbox.ts';
import { sumCapacity } from '../store/workers.ts';
import type { Context } from './context.ts';

/** A run the queue was told of is told again after so long unclaimed: the queue may have lost it. */
const retellAfterMs = 5_000;

/** Waiting runs of one team that are looked at in one go. */
const candidatesPerTeam = 200;

/**
 * Lets waiting runs into the queue: as many as keep about twice the workers' capacity waiting
 * there, chosen fairly among tenants. Any number of workers may call it at once.
 *
 * @param tell adds runs to the queue; throws where the queue is away
 * @returns how many runs were let in
 */
export async function dispatchRuns(
  context: Context,
  tell: (runIds: readonly string[]) => Promise<void>,
): Promise<number> {
  const { picked, retold } = await context.db.transaction(async (tx) => {
    await lockDispatch(tx);
    const again = await findUnanswered(tx, retellAfterMs);
    const slots = 2 * (await sumCapacity(tx)) - (await countDispatched(tx));
    if (slots <= 0) return { picked: [], retold: again };
    const inFlight = await listInFlight(tx);
    const { maxRunsPerExport, maxRunsPerTenant } = context.policy;
    const candidates = await findWaiting(
      tx,
      candidatesPerTeam,
      fullExports(inFlight, maxRunsPerExport),
    );
    const limits: DispatchLimits = {
      perTenant: maxRunsPerTenant,
      perExport: maxRunsPerExport,
      // A backfill has no more live runs than its concurrency in the first place.
      perBackfill: () => Number.POSITIVE_INFINITY,
    };
    const chosen = pickFair(candidates, inFlight, limits, slots);
    const ids = chosen.map((run) => run.runId);
    await markDispatched(tx, ids);
    return { picked: ids, retold: again };
  });
  try {
    await tell([...picked, ...retold]);
  } catch (error) {
    await unmarkDispatched(context.db, picked);
    throw error;
  }
  return picked.length;
}

/** Exports with as many live runs in flight as they may have. */
function fullExports(inFlight: readonly DispatchedRun[], limit: number): string[] {
  const counts = new Map<string, number>();
  for (const { exportId, backfillId } of inFlight) {
    if (backfillId === null) counts.set(exportId, (counts.get(exportId) ?? 0) + 1);
  }
  return [...counts].filter(([, count]) => count >= limit).map(([exportId]) => exportId);
}
