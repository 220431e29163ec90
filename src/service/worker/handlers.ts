import type { JobHandlers } from '../../state/queue/catalogue.ts';
import { currentEra } from '../../state/store/database/eras.ts';
import { dispatchRuns, dispatchWaiting, type QueueEntry } from '../admission/dispatch-runs.ts';
import { advanceBackfill } from '../use-cases/backfills/advance-backfill.ts';
import { applyRetention } from '../use-cases/installation/apply-retention.ts';
import { decideTicks } from '../use-cases/runs/decide-ticks.ts';
import { type HandlerOptions, RunJobs } from './run-jobs.ts';
import { shareNext, shareNextById, skipWhileBusy } from './shared-work.ts';
import { createSweep } from './sweep.ts';

/** What a worker does for each job. */
export function createHandlers(options: HandlerOptions): JobHandlers {
  const { producer, executor, admission, reports } = options;
  const { context, statements } = executor;
  const { crowd } = admission;
  const enqueue = async (entries: readonly QueueEntry[], smallSlots: number) =>
    producer.addRuns(entries, admission.runsPerJob(entries.length, smallSlots));
  const dispatch = shareNext(async () => void (await dispatchWaiting(context, enqueue, crowd)));
  // A tick notices what time brings.
  const dispatchDue = shareNext(async () => void (await dispatchRuns(context, enqueue, crowd)));
  const advance = shareNextById(async (backfillId) => {
    reports.runsMade('backfill', await advanceBackfill(context, statements, backfillId));
  });
  const decide = skipWhileBusy(async () => {
    const onError = reports.scheduleFailed;
    reports.runsMade('tick', await decideTicks(context, { onError }));
  });
  // A restored or copied database does nothing until an operator accepts it: the original may still run.
  const unlessHeld =
    <Data>(work: (data: Data) => Promise<void>) =>
    async (data: Data) => {
      if (!(await currentEra(context.db)).held) await work(data);
    };
  const decideAndDispatch = unlessHeld(async () => {
    await decide();
    await dispatchDue();
  });
  const runs = new RunJobs(options, { advance, dispatch });
  return {
    async tick(data) {
      await decideAndDispatch(data);
      reports.ticked();
    },
    'dispatch-runs': unlessHeld(dispatch),
    'execute-run': (data) => runs.executeLarge(data),
    'execute-small-run': (data) => runs.executeSmall({ runs: [data] }),
    'execute-small-runs': (data) => runs.executeSmall(data),
    'advance-backfill': unlessHeld(async ({ backfillId }) => {
      await advance(backfillId);
      await dispatch();
    }),
    'verify-export': unlessHeld(options.verify),
    sweep: unlessHeld(createSweep(options, { advance, dispatch })),
    'apply-retention': skipWhileBusy(() => applyRetention(context)),
  };
}
