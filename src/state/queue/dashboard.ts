import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { FastifyAdapter } from '@bull-board/fastify';
import type { Job, Queue } from 'bullmq';
import type { FastifyPluginCallback } from 'fastify';
import { idsIn, type Producer } from './producer.ts';

/** What the dashboard shows of a run. */
export interface RunOfJob {
  readonly id: string;
  /** `Acme · Orders · 00:25` */
  readonly name: string;
  readonly status: string;
  readonly error: string | null;
  /** Its page. */
  readonly link: string;
}

type FindRuns = (runIds: readonly string[]) => Promise<readonly RunOfJob[]>;

/**
 * The queue dashboard for operators. A job of runs shows their names, how they end and why, which is read when it is viewed. A run
 * that fails is recorded in Postgres, and its job completes. A job is "failed" only if its handler threw, and the next job does
 * its work.
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
    options: { uiConfig: { boardTitle: 'Sluice queues: a failed job is not a failed run' } },
  });
  return serverAdapter.registerPlugin() as FastifyPluginCallback;
}

/** Runs that the name of a job lists. */
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
    const jobs = await super.getJobs(...wanted);
    await this.#describe(jobs);
    return jobs;
  }

  /** The jobs show their runs from now on. Without the database they show what the queue has. */
  async #describe(jobs: readonly Job[]): Promise<void> {
    const ids = jobs.flatMap(({ data }) => idsIn(data));
    if (ids.length === 0) return;
    const found = await this.#findRuns(ids).catch(() => []);
    const byId = new Map(found.map((run) => [run.id, run]));
    for (const job of jobs) {
      const runs = idsIn(job.data).flatMap((id) => byId.get(id) ?? []);
      const [first] = runs;
      if (!first) continue;
      const shown = { ...job.toJSON(), name: nameOf(runs) };
      const returnvalue = runs.map(({ name, status, error, link }) => ({
        ...{ run: name, status, error, link },
      }));
      const described = { ...shown, returnvalue };
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
