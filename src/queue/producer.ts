import type { Queue } from 'bullmq';
import {
  type JobCatalogue,
  type JobName,
  type QueueName,
  queueNames,
  queueOf,
  recurringJobs,
} from './catalogue.ts';
import type { QueueConnection } from './connection.ts';

/** Rings the workers. */
export interface Producer {
  /** @throws where the queue does not take it within a second */
  add<Name extends JobName>(name: Name, data: JobCatalogue[Name]): Promise<void>;
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
  const queueFor = (job: JobName): Queue => {
    const queue = queues.get(queueOf[job]);
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
      for (const { name, everyMs } of recurringJobs) {
        await within(
          5_000,
          queueFor(name).upsertJobScheduler(
            name,
            { every: everyMs },
            { name, data: {}, opts: keep },
          ),
        );
      }
    },
    async close() {
      await Promise.allSettled([...queues.values()].map((queue) => queue.close()));
    },
  };
}

/** Rejects after `ms`; what `promise` does later is of no interest. */
async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the queue did not answer within ${ms} ms`)), ms);
  });
  promise.catch(() => {});
  try {
    return await Promise.race([promise, expired]);
  } finally {
    clearTimeout(timer);
  }
}
