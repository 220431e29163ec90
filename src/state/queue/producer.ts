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

export interface QueuedEntry {
  readonly runId: string;
  /** The queue holds it at most once while it waits; null if the caller enqueues it once only. */
  readonly deduplicationId: string | null;
  /** True if it goes to the queue of small runs; default: no. */
  readonly small?: boolean;
}

export interface Producer {
  /** @throws if the queue does not accept the job within a second */
  add<Name extends JobName>(name: Name, data: JobData[Name]): Promise<void>;
  /**
   * Enqueues runs. An entry whose `deduplicationId` is already in the queue is not added again.
   *
   * @param perJob maximum number of small runs in a job
   * @throws if the queue does not accept them within five seconds
   */
  addRuns(entries: readonly QueuedEntry[], perJob?: number): Promise<void>;
  /** Enqueues those that do not wait already. @throws if the queue does not accept them within five seconds */
  addVerifications(verifications: readonly JobData['verify-export'][]): Promise<void>;
  /** Restores missing recurring jobs: a queue that lost its data does not report it. */
  ensureRecurring(): Promise<void>;
  readonly queues: readonly Queue[];
  /** The names of the queues that an operator has paused. @throws if the backend is unreachable */
  listPaused(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** A recurring job that is later than this has lost its next turn. */
const standstillMs = 5_000;

/** The time that finished jobs are kept, for the dashboard only. */
const keep = {
  removeOnComplete: { age: 3_600, count: 200 },
  removeOnFail: { age: 86_400, count: 500 },
};

/** In Postgres no ended job is kept: BullMQ looks at all of them whenever one more ends. The run says how it ended. */
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
    async addRuns(entries, perJob = maxPerJob) {
      const opts = keepRuns[connection.kind];
      const large = entries.filter(({ small }) => !small);
      const small = entries.filter((entry) => entry.small);
      // A job with a deduplication id is about one run.
      const again = small.filter(({ deduplicationId }) => deduplicationId !== null);
      const isFirst = ({ deduplicationId }: QueuedEntry) => deduplicationId === null;
      const first = groupsOf(small.filter(isFirst), Math.min(perJob, maxPerJob));
      const ofOne = (name: JobName) => (run: QueuedEntry) =>
        jobOf(name, dataOf(run), run.deduplicationId, opts);
      const jobsOfSmall = [
        ...again.map(ofOne('execute-small-run')),
        ...first.map((runs) => jobOf('execute-small-runs', { runs: runs.map(dataOf) }, null, opts)),
      ];
      const added = [
        large.length > 0 && queueFor('execute-run').addBulk(large.map(ofOne('execute-run'))),
        jobsOfSmall.length > 0 && queueFor('execute-small-runs').addBulk(jobsOfSmall),
      ];
      await within(5_000, Promise.all(added));
    },
    async addVerifications(verifications) {
      const added = verifications.map((data) => {
        const id = `${data.exportId}-${data.dueAt.slice(0, 10)}`;
        return jobOf('verify-export', data, id, keepRuns[connection.kind]);
      });
      if (added.length > 0) await within(5_000, queueFor('verify-export').addBulk(added));
    },
    async ensureRecurring() {
      // At the same time: one that the queue does not answer in time keeps no other from being restored.
      const ensured = Object.entries(jobs).map(async ([name, { everyMs, afterMs }]) => {
        if (everyMs === undefined || !isJobName(name)) return;
        const times = { every: everyMs, ...(afterMs !== undefined && { offset: afterMs }) };
        await within(5_000, ensureScheduler(queueFor(name), name, times, seen));
      });
      await Promise.all(ensured);
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

const dataOf = ({ runId }: QueuedEntry) => ({ runId });

const jobOf = (
  name: JobName,
  data: object,
  id: string | null,
  opts: (typeof keepRuns)['redis' | 'postgres'],
) => ({ name, data, opts: id === null ? opts : { ...opts, deduplication: { id } } });

/** Maximum runs of one job: several workers share what is dispatched at once. */
const maxPerJob = 24;

/** In the order of the entries, as many in each group as the sizes allow. */
function groupsOf(
  entries: readonly QueuedEntry[],
  most: number,
): readonly (readonly QueuedEntry[])[] {
  const size = Math.ceil(entries.length / Math.ceil(entries.length / most));
  const groups: QueuedEntry[][] = [];
  for (let from = 0; from < entries.length; from += size) {
    groups.push(entries.slice(from, from + size));
  }
  return groups;
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The subject of a job: a backfill, a run or several. */
export function idsIn(data: unknown): readonly string[] {
  const { runId, backfillId, runs }: Record<string, unknown> = Object(data);
  const several: readonly unknown[] = Array.isArray(runs) ? runs : [];
  const named = several.map((run) => Reflect.get(Object(run), 'runId'));
  return [runId, backfillId, ...named].filter(
    (id): id is string => typeof id === 'string' && uuid.test(id),
  );
}

/** When a scheduler was first seen with this `next`, by the monotonic clock. */
interface SeenScheduler {
  readonly next: number | undefined;
  readonly at: number;
}

/** Writes only if the scheduler is missing or has stopped: on Postgres, two writers of one can deadlock. */
async function ensureScheduler(
  queue: Queue,
  name: JobName,
  times: { readonly every: number; readonly offset?: number },
  seen: Map<string, SeenScheduler>,
): Promise<void> {
  const now = performance.now();
  const scheduler = await queue.getJobScheduler(name);
  const before = seen.get(name);
  const { every, offset = scheduler?.offset } = times;
  if (scheduler && scheduler.every === every && scheduler.offset === offset) {
    if (!before || before.next !== scheduler.next) {
      seen.set(name, { next: scheduler.next, at: now });
      return;
    }
    if (now - before.at < every + standstillMs) return;
  }
  seen.delete(name);
  try {
    // `next` is by the clock of the host that wrote it, which may be wrong by hours. An upsert would
    // keep that value, so the scheduler is removed first.
    if (scheduler) await queue.removeJobScheduler(name);
    await queue.upsertJobScheduler(name, times, { name, data: {}, opts: keep });
  } catch (error) {
    // Another worker may have been first.
    if (!(await queue.getJobScheduler(name))) throw error;
  }
}
