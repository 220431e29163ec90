import {
  type EnqueuedRun,
  findUnanswered,
  markDispatched,
  markReady,
  type TakenRuns,
  takeRuns,
  unmarkDispatched,
} from '../../state/store/runs/outbox.ts';
import type { Context } from '../use-cases/context.ts';
import type { Crowd } from './reading-turns.ts';

/** A run that is unclaimed after this time is enqueued again: the queue may have lost it. */
const enqueueAgainAfterMs = 5_000;

/** A run to enqueue. */
export interface QueueEntry {
  readonly runId: string;
  /**
   * The deduplication id: the queue holds it at most once. A run that is enqueued again may get a new one. Null: it is
   * enqueued for the first time.
   */
  readonly deduplicationId: string | null;
  /** True if it goes to the queue of small runs. */
  readonly small: boolean;
}

/** @param smallSlots of all workers */
type Enqueue = (entries: readonly QueueEntry[], smallSlots: number) => Promise<void>;

/**
 * Does what the time makes due: makes runs visible whose backoff or jitter has ended, and enqueues those again that no
 * worker has claimed. Then enqueues waiting runs.
 *
 * @param enqueue adds runs to the queue; throws if the queue is unreachable
 * @param crowd learns who is active, and says who must leave room; default: none must
 * @returns how many runs were enqueued for the first time
 */
export async function dispatchRuns(
  context: Context,
  enqueue: Enqueue,
  crowd?: Crowd,
): Promise<number> {
  await markReady(context.db);
  const unanswered = await findUnanswered(context.db, enqueueAgainAfterMs);
  if (unanswered.length > 0) {
    const enqueued = await markDispatched(context.db, unanswered);
    await enqueue(enqueued.map(toEntry), 0);
  }
  return dispatchWaiting(context, enqueue, crowd);
}

/**
 * Enqueues waiting runs, chosen fairly among tenants, until the queue holds about twice as many as the
 * workers have slots. Organizations take turns: the one with the fewest runs in flight goes first, counting those chosen here. The projects
 * of an organization share its turns in the same way. Within a project live runs go before backfills, then the oldest interval. Of four or
 * more slots one organization never has all. Small runs have slots of their own, which are shared in the same way. Any number of workers
 * may call it at once.
 *
 * @param enqueue adds runs to the queue; throws if the queue is unreachable
 * @param crowd as for `dispatchRuns`
 * @returns how many runs were enqueued
 */
export async function dispatchWaiting(
  context: Context,
  enqueue: Enqueue,
  crowd?: Crowd,
): Promise<number> {
  const { runs, organizationIds, smallSlots } = await take(context, crowd);
  crowd?.see(organizationIds);
  if (runs.length === 0) return 0;
  try {
    await enqueue(runs.map(toEntry), smallSlots);
  } catch (error) {
    await unmarkDispatched(
      context.db,
      runs.map(({ runId }) => runId),
    );
    throw error;
  }
  return runs.length;
}

/**
 * Chooses once more if another dispatcher has chosen meanwhile. If that happens twice, the second one has seen what this one saw first,
 * since it began to look after the first one had chosen.
 */
async function take({ db, policy }: Context, crowd?: Crowd): Promise<TakenRuns> {
  const { maxRunsPerExport: perExport, maxRunsPerTenant: perProject } = policy;
  const rules = { perExport, perProject, company: crowd?.company() ?? null };
  const taken = await takeRuns(db, rules);
  return taken.isCurrent ? taken : takeRuns(db, rules);
}

/**
 * The first time needs no id: one dispatcher marks the run, and enqueues it once. From then on
 * the queue refuses an entry that it already holds. If it lost the job, or the worker crashed just after
 * it fetched the job, the queue may still hold the id. So the id changes with each doubling of the times.
 */
function toEntry({ runId, timesEnqueued, small }: EnqueuedRun): QueueEntry {
  const doublings = Math.floor(Math.log2(timesEnqueued));
  return { runId, deduplicationId: doublings === 0 ? null : `${runId}.${doublings}`, small };
}
