import type { Queue } from 'bullmq';
import {
  isJobName,
  type JobData,
  type JobName,
  jobs,
  type QueueName,
  queueNames,
} from './catalogue.ts';
import { type QueueConnection, within } from './connection.ts';

/** A run to enqueue. */
export interface QueuedEntry {
  readonly runId: string;
  /** The queue holds it at most once while it waits; null if the caller enqueues it once only. */
  readonly ring: string | null;
  /** Whether it goes to the queue of small runs; default: no. */
  readonly small?: boolean;
  /** The span that enqueues it, if traces are on. */
  readonly traceparent?: string;
}

/** Enqueues jobs for the workers. */
export interface Producer {
  /** @throws if the queue does not accept the job within a second */
  add<Name extends JobName>(name: Name, data: JobData[Name]): Promise<void>;
  /**
   * Enqueues runs. An entry whose `ring` is already in the queue is not added again.
   *
   * @throws if the queue does not accept them within five seconds
   */
  addRuns(entries: readonly QueuedEntry[]): Promise<void>;
  /** Restores missing recurring jobs: a queue that lost its data does not report it. */
  ensureRecurring(): Promise<void>;
  readonly queues: readonly Queue[];
  /**
   * Removes jobs that wait or have ended, about runs and backfills that are gone.
   *
   * @param findGone which of these ids are gone
   * @throws if the queue does not answer within a minute
   */
  removeGone(findGone: (ids: readonly string[]) => Promise<ReadonlySet<string>>): Promise<void>;
  /** The names of the queues that an operator has paused. @throws if the backend is unreachable */
  listPaused(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** A recurring job that is later than this has lost its next turn. */
const standstillMs = 5_000;

/** How long finished jobs are kept, for the dashboard only. */
const keep = {
  removeOnComplete: { age: 3_600, count: 200 },
  removeOnFail: { age: 86_400, count: 500 },
};

/**
 * The same for jobs of runs. In Postgres, BullMQ looks at all that are kept whenever one more ends, and at those that
 * autovacuum has not removed yet. So none is kept there: the run itself says how it ended.
 */
const keepRuns = { redis: keep, postgres: { ...keep, removeOnComplete: true } };

export function openProducer(
  connection: QueueConnection,
  onError: (error: Error) => void,
): Producer {
  const queues = new Map<QueueName, Queue>(
    Object.values(queueNames).map((name) => {
      const queue = connection.openQueue(name);
      queue.on('error', onError);
      return [name, queue];
    }),
  );
  const seen = new Map<string, SeenScheduler>();
  const queueFor = (job: JobName): Queue => {
    const queue = queues.get(jobs[job].queue);
    if (!queue) throw new Error(`no queue carries ${job}`);
    return queue;
  };
  return {
    queues: [...queues.values()],
    async add(name, data) {
      await within(1_000, queueFor(name).add(name, data, keep));
    },
    async addRuns(entries) {
      const large = entries.filter(({ small }) => !small);
      const small = entries.filter((entry) => entry.small);
      const added = [['execute-run', large] as const, ['execute-small-run', small] as const].map(
        async ([name, runs]) => {
          if (runs.length > 0) {
            const opts = keepRuns[connection.kind];
            await queueFor(name).addBulk(runs.map((run) => jobOf(name, run, opts)));
          }
        },
      );
      await within(5_000, Promise.all(added));
    },
    async ensureRecurring() {
      for (const [name, { everyMs }] of Object.entries(jobs)) {
        if (everyMs === undefined || !isJobName(name)) continue;
        await within(5_000, ensureScheduler(queueFor(name), name, everyMs, seen));
      }
    },
    async removeGone(findGone) {
      await within(
        60_000,
        Promise.all([...queues.values()].map((queue) => removeGone(queue, findGone))),
      );
    },
    async listPaused() {
      const states = [...queues].map(async ([name, queue]) =>
        (await queue.isPaused()) ? [name] : [],
      );
      return (await within(1_000, Promise.all(states))).flat();
    },
    async close() {
      // An unreachable queue may never answer.
      const closed = Promise.allSettled([...queues.values()].map((queue) => queue.close()));
      await within(1_000, closed).catch(() => {});
    },
  };
}

const jobOf = (
  name: JobName,
  { runId, traceparent, ring }: QueuedEntry,
  opts: (typeof keepRuns)['redis' | 'postgres'],
) => ({
  name,
  data: traceparent === undefined ? { runId } : { runId, traceparent },
  opts: ring === null ? opts : { ...opts, deduplication: { id: ring } },
});

/** Far more than the dispatcher lets wait, or than are kept. */
const maxListedJobs = 10_000;

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

async function removeGone(
  queue: Queue,
  findGone: (ids: readonly string[]) => Promise<ReadonlySet<string>>,
): Promise<void> {
  const listed = await queue.getJobs(
    ['waiting', 'prioritized', 'delayed', 'completed', 'failed'],
    0,
    maxListedJobs,
  );
  const about = listed.flatMap((job) => {
    const { runId, backfillId }: { runId?: unknown; backfillId?: unknown } = job?.data ?? {};
    const id = runId ?? backfillId;
    return typeof id === 'string' && uuid.test(id) ? [{ job, id }] : [];
  });
  const gone = await findGone(about.map(({ id }) => id));
  for (const { job, id } of about) {
    // A job that a worker takes at this moment ends by itself: its run is gone.
    if (gone.has(id)) await job.remove().catch(() => {});
  }
}

/** When a scheduler was first seen with this `next`, by the monotonic clock. */
interface SeenScheduler {
  readonly next: number | undefined;
  readonly at: number;
}

/**
 * Writes only if the scheduler is missing or has stopped: on Postgres, two writers of one scheduler
 * can deadlock, and many workers check at once.
 */
async function ensureScheduler(
  queue: Queue,
  name: JobName,
  everyMs: number,
  seen: Map<string, SeenScheduler>,
): Promise<void> {
  const now = performance.now();
  const scheduler = await queue.getJobScheduler(name);
  const before = seen.get(name);
  if (scheduler && scheduler.every === everyMs) {
    if (!before || before.next !== scheduler.next) {
      seen.set(name, { next: scheduler.next, at: now });
      return;
    }
    if (now - before.at < everyMs + standstillMs) return;
  }
  seen.delete(name);
  try {
    // `next` is by the clock of the host that wrote it, which may be wrong by hours. An upsert would
    // keep that value, so the scheduler is removed first.
    if (scheduler) await queue.removeJobScheduler(name);
    await queue.upsertJobScheduler(name, { every: everyMs }, { name, data: {}, opts: keep });
  } catch (error) {
    // Another worker may have been first.
    if (!(await queue.getJobScheduler(name))) throw error;
  }
}
