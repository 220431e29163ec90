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

/** Rings the workers. */
export interface Producer {
  /** @throws where the queue does not take it within a second */
  add<Name extends JobName>(name: Name, data: JobData[Name]): Promise<void>;
  /**
   * Tells the workers of runs. An entry whose ring is already in the queue is not added again.
   *
   * @throws where the queue does not take them within five seconds
   */
  addRuns(entries: readonly { readonly runId: string; readonly ring: string }[]): Promise<void>;
  /** Makes sure the recurring jobs are there; a queue that lost its data says nothing. */
  ensureRecurring(): Promise<void>;
  readonly queues: readonly Queue[];
  close(): Promise<void>;
}

/** A recurring job that is late by so much has lost its next turn. */
const standstillMs = 5_000;

/** Finished jobs stay this long for the dashboard; nothing else reads them. */
const keep = {
  removeOnComplete: { age: 3_600, count: 200 },
  removeOnFail: { age: 86_400, count: 500 },
};

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
      if (entries.length === 0) return;
      await within(
        5_000,
        queueFor('execute-run').addBulk(
          entries.map(({ runId, ring }) => ({
            name: 'execute-run',
            data: { runId },
            opts: { ...keep, deduplication: { id: ring } },
          })),
        ),
      );
    },
    async ensureRecurring() {
      for (const [name, { everyMs }] of Object.entries(jobs)) {
        if (everyMs === undefined || !isJobName(name)) continue;
        await within(5_000, ensureScheduler(queueFor(name), name, everyMs, seen));
      }
    },
    async close() {
      // A queue that is away may never answer.
      const closed = Promise.allSettled([...queues.values()].map((queue) => queue.close()));
      await within(1_000, closed).catch(() => {});
    },
  };
}

/** When a scheduler was first seen with this next time, by the monotonic clock. */
interface SeenScheduler {
  readonly next: number | undefined;
  readonly at: number;
}

/**
 * Writes only where the scheduler is gone or has stood still: on Postgres, writers of one scheduler
 * can deadlock, and many workers look at once.
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
    // Its next time is by the clock of the host that wrote it, which may be wrong by hours; one that
    // is only written again goes on from there.
    if (scheduler) await queue.removeJobScheduler(name);
    await queue.upsertJobScheduler(name, { every: everyMs }, { name, data: {}, opts: keep });
  } catch (error) {
    // Another worker may have been first.
    if (!(await queue.getJobScheduler(name))) throw error;
  }
}
