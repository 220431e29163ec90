import type { JobHandlers } from '../queue/consumer.ts';
import type { Producer } from '../queue/producer.ts';
import { listRunningBackfills } from '../store/backfills.ts';
import { sweepExpiredLeases } from '../store/leases.ts';
import { sweepWorkers } from '../store/workers.ts';
import { advanceBackfill } from '../use-cases/advance-backfill.ts';
import { applyRetention } from '../use-cases/apply-retention.ts';
import type { Context } from '../use-cases/context.ts';
import { decideTicks } from '../use-cases/decide-ticks.ts';
import { dispatchRuns } from '../use-cases/dispatch-runs.ts';
import { collectUploads } from './collect-uploads.ts';
import { type AttemptReport, type ExecutorOptions, executeRun } from './execute-run.ts';

export interface HandlerOptions {
  readonly context: Context;
  readonly producer: Producer;
  readonly executor: ExecutorOptions;
  readonly onAttemptEnd: (report: AttemptReport, seconds: number) => void;
  readonly onRunsMade: (by: 'tick' | 'backfill', runs: number) => void;
}

/** What a worker does for each job. */
export function createHandlers(options: HandlerOptions): JobHandlers {
  const { context, producer, executor } = options;
  const dispatch = () => dispatchRuns(context, (runIds) => producer.addRuns(runIds));
  const advance = async (backfillId: string) => {
    const made = await advanceBackfill(context, backfillId);
    options.onRunsMade('backfill', made);
    if (made > 0) await dispatch();
  };
  return {
    async tick() {
      options.onRunsMade('tick', await decideTicks(context));
      await dispatch();
    },
    async 'dispatch-runs'() {
      await dispatch();
    },
    async 'execute-run'({ runId }) {
      const startedAt = performance.now();
      const report = await executeRun(executor, runId);
      options.onAttemptEnd(report, (performance.now() - startedAt) / 1_000);
      const { run } = report;
      if (!run) return;
      // A place is free: the next run need not wait for the next tick.
      if (run.backfillId === null) await dispatch();
      else await advance(run.backfillId);
    },
    'advance-backfill': ({ backfillId }) => advance(backfillId),
    async sweep() {
      await sweepExpiredLeases(context.db);
      await sweepWorkers(context.db);
      await collectUploads(executor);
      for (const backfillId of await listRunningBackfills(context.db)) await advance(backfillId);
      await dispatch();
    },
    'apply-retention': () => applyRetention(context),
  };
}
