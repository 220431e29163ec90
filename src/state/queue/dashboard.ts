import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { FastifyAdapter } from '@bull-board/fastify';
import type { Job, Queue } from 'bullmq';
import type { FastifyPluginCallback } from 'fastify';
import type { RunStatus } from '../../foundation/domain/run.ts';
import { idsIn, type Producer } from './producer.ts';

export interface RunOfJob {
  readonly id: string;
  /** `Acme · Orders · 00:25` */
  readonly name: string;
  readonly status: string;
  readonly error: string | null;
  readonly link: string;
}

type FindRuns = (runIds: readonly string[]) => Promise<readonly RunOfJob[]>;

/**
 * The queue dashboard for operators. A job of runs shows their names, how they end and why, which is read when it is viewed. For
 * BullMQ the job of a run that fails completes: the failure is recorded in Postgres. The dashboard shows it as failed, like a job
 * whose handler threw.
 * Register it under `basePath`, behind an operator's key.
 */
export function createDashboard(
  producer: Producer,
  basePath: string,
  findRuns: FindRuns,
): FastifyPluginCallback {
  const serverAdapter = new FastifyAdapter();
  serverAdapter.setBasePath(basePath);
  createBullBoard({
    queues: producer.queues.map((queue) => new RunQueue(queue, findRuns)),
    serverAdapter,
    options: { uiConfig: { boardTitle: 'Sluice queues' } },
  });
  return serverAdapter.registerPlugin() as FastifyPluginCallback;
}

const failures: ReadonlySet<string> = new Set<RunStatus>(['Failed', 'FailedRetryable']);

const named = 3;

type Link = ReturnType<NonNullable<BullMQAdapter['externalJobUrl']>>;

class RunQueue extends BullMQAdapter {
  readonly #findRuns: FindRuns;
  /** Links of jobs that were read, as long as these are. */
  readonly #links: WeakMap<object, Link>;

  constructor(queue: Queue, findRuns: FindRuns) {
    const links = new WeakMap<object, Link>();
    // A job that is about no run has no link.
    super(queue, { externalJobUrl: (job) => links.get(job) as Link });
    this.#findRuns = findRuns;
    this.#links = links;
  }

  override async getJob(id: string): Promise<Job | undefined> {
    const job = await super.getJob(id);
    if (job) await this.#describe([job]);
    return job;
  }

  override async getJobs(...wanted: Parameters<BullMQAdapter['getJobs']>): Promise<Job[]> {
    const [[status, ...others], start = 0, end = -1] = wanted;
    if (others.length === 0 && (status === 'completed' || status === 'failed')) {
      const ended = await this.#readEnded();
      return ended[status].slice(start, end < 0 ? undefined : end + 1);
    }
    const jobs = await super.getJobs(...wanted);
    await this.#describe(jobs);
    return jobs;
  }

  override async getJobCounts() {
    const reading = [super.getJobCounts(), this.#readEnded()] as const;
    const [counts, { completed, failed }] = await Promise.all(reading);
    return { ...counts, completed: completed.length, failed: failed.length };
  }

  /** The queue keeps some hundreds of them. */
  async #readEnded(): Promise<Record<'completed' | 'failed', Job[]>> {
    const jobs = (await super.getJobs(['completed', 'failed'])).filter(Boolean);
    await this.#describe(jobs);
    jobs.sort((one, other) => (other.finishedOn ?? 0) - (one.finishedOn ?? 0));
    const hasFailed = (job: Job) => Boolean(job.toJSON().failedReason);
    return { completed: jobs.filter((job) => !hasFailed(job)), failed: jobs.filter(hasFailed) };
  }

  /** The jobs show their runs from now on. Without the database they show what the queue has. */
  async #describe(jobs: readonly Job[]): Promise<void> {
    const ids = jobs.flatMap(({ data }) => idsIn(data));
    if (ids.length === 0) return;
    const shownRuns = await this.#findRuns(ids).catch(() => []);
    const byId = new Map(shownRuns.map((run) => [run.id, run]));
    for (const job of jobs) {
      const runs = idsIn(job.data).flatMap((id) => byId.get(id) ?? []);
      const [first] = runs;
      if (!first) continue;
      const shown = { ...job.toJSON(), name: nameOf(runs) };
      const returnvalue = runs.map(({ name, status, error, link }) => ({
        ...{ run: name, status, error, link },
      }));
      const failed = runs.find(({ status }) => failures.has(status));
      const failedReason = shown.failedReason ?? (failed && (failed.error ?? failed.status));
      const described = { ...shown, returnvalue, failedReason };
      this.#links.set(described, { displayText: 'Run', href: first.link });
      job.toJSON = () => described;
    }
  }
}

function nameOf(runs: readonly RunOfJob[]): string {
  const shown = runs.slice(0, named).map(({ name, status }) => `${name} · ${status}`);
  const more = runs.length - shown.length;
  return `${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
