import type { Worker } from 'bullmq';
import {
  isJobName,
  type JobHandlers,
  type JobName,
  jobs,
  type QueueName,
  queueNames,
} from './catalogue.ts';
import { type QueueConnection, within } from './connection.ts';

export interface ConsumerOptions {
  readonly runConcurrency: number;
  readonly takesSmallRuns: boolean;
  readonly onError: (error: Error) => void;
  readonly onJobFailed: (name: string, error: Error) => void;
}

export interface Consumer {
  /** Takes no more jobs and waits for those in progress, but not for an unreachable queue. */
  close(): Promise<void>;
}

/** The number of jobs of small runs that a worker takes at a time. While it has no slot for them, others may take the rest. */
const smallRunJobs = 1;

const goodbyeMs = 2_000;

export function openConsumer(
  connection: QueueConnection,
  handlers: JobHandlers,
  options: ConsumerOptions,
): Consumer {
  const inHand = new Set<Promise<void>>();
  const open = (queue: QueueName, concurrency: number): Worker => {
    const worker = connection.openWorker(
      queue,
      async (job) => {
        if (!isJobName(job.name) || jobs[job.name].queue !== queue) {
          throw new Error(`unknown job ${job.name}`);
        }
        // Once a job is in progress, the queue must accept a new job for the same run: if this process
        // dies, BullMQ notices only after half a minute.
        const removing = job.removeDeduplicationKey();
        removing.catch(() => {});
        const handling = handle(handlers, job.name, job.data);
        inHand.add(handling);
        await handling.finally(() => inHand.delete(handling));
        await removing;
      },
      {
        concurrency,
        // BullMQ waits 15 s by default after a fault of its backend.
        runRetryDelay: 1_000,
        drainDelay: 5,
        lockDuration: 30_000,
        // The lease decides whether a run continues, not the queue's count of stalls.
        maxStalledCount: 1_000,
      },
    );
    worker.on('error', options.onError);
    worker.on('failed', (job, error) => options.onJobFailed(job?.name ?? 'unknown', error));
    return worker;
  };
  const { runConcurrency, takesSmallRuns } = options;
  const workers = [
    open(queueNames.control, 8),
    open(queueNames.runs, runConcurrency),
    open(queueNames.verify, 1),
  ];
  // A job ends when its runs have begun.
  if (takesSmallRuns) workers.push(open(queueNames.smallRuns, smallRunJobs));
  return {
    async close() {
      const closed = Promise.allSettled(workers.map((worker) => worker.close()));
      const finish = async () => {
        while (inHand.size > 0) await Promise.allSettled(inHand);
      };
      await finish();
      await within(goodbyeMs, closed).catch(() => {});
      await finish();
    },
  };
}

async function handle<Name extends JobName>(
  handlers: JobHandlers,
  name: Name,
  data: unknown,
): Promise<void> {
  await handlers[name](jobs[name].parse(data));
}
