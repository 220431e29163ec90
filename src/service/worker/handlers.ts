import type { Admission, ComingRun } from '../admission/admission.ts';
import { dispatchRuns, dispatchWaiting, type QueueEntry } from '../admission/dispatch-runs.ts';
import { Grouped } from '../../foundation/domain/grouped.ts';
import type { JobData, JobHandlers } from '../../state/queue/catalogue.ts';
import type { Producer } from '../../state/queue/producer.ts';
import { listRunningBackfills } from '../../state/store/exports/backfills.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';
import { currentEra } from '../../state/store/database/eras.ts';
import { checkCompleteness, checkFreshness } from '../../state/store/exports/freshness.ts';
import { sweepExpiredLeases } from '../../state/store/runs/leases.ts';
import { expectLarge, removeEndedEntries } from '../../state/store/runs/outbox.ts';
import { findRunNeeds, type RunNeeds } from '../../state/store/runs/run-needs.ts';
import { isDatabaseUnavailable } from '../../state/store/database/unavailable.ts';
import { sweepWorkers } from '../../state/store/runs/workers.ts';
import { checkDeadlines } from '../use-cases/deadlines/check-deadlines.ts';
import { heal } from '../use-cases/healing/heal.ts';
import { advanceBackfill } from '../use-cases/backfills/advance-backfill.ts';
import { applyRetention } from '../use-cases/installation/apply-retention.ts';
import { decideTicks } from '../use-cases/runs/decide-ticks.ts';
import { advanceTasks } from '../use-cases/operators/tasks.ts';
import { lookBack } from '../use-cases/runs/look-back.ts';
import { SlowExports } from '../use-cases/runs/slow-exports.ts';
import type { WorkGuard } from '../use-cases/work-guard.ts';
import type { AttemptReport } from './attempt-report.ts';
import { collectFiles } from './collect-files.ts';
import { collectUploads } from './collect-uploads.ts';
import { comparePlaces } from './compare-places.ts';
import { type ExecutorOptions, executeRun } from './execute-run.ts';
import type { NotificationCourier } from './notification-courier.ts';
import { offboardTenants } from './offboard-tenants.ts';
import type { Parking } from './parking.ts';
import { retryUntilRecorded } from './retry-until-recorded.ts';
import { type SampleOptions, sampleJobs } from './run-sample-jobs.ts';
import { paced, shareNext, shareNextById, skipWhileBusy } from './shared-work.ts';
import { traceProcess, traceSends } from './trace-jobs.ts';

export interface HandlerOptions {
  readonly producer: Producer;
  readonly executor: ExecutorOptions & { readonly guard: WorkGuard };
  readonly admission: Admission;
  readonly parking: Pick<Parking, 'settle'>;
  readonly courier: Pick<NotificationCourier, 'collect'>;
  readonly sampleRows: SampleOptions['sampleRows'];
  readonly reports: WorkerReports;
  /** Verifies exports if that is due, until it is done. Never throws. */
  readonly verify: () => Promise<void>;
}

/** What a worker reports, to its log and its metrics. */
export interface WorkerReports {
  attemptEnded(report: AttemptReport, seconds: number): void;
  /** A small run threw: its job has ended before. */
  runFailed(error: unknown): void;
  runsMade(by: 'tick' | 'backfill' | 'healing', runs: number): void;
  scheduleFailed(error: unknown, exportId: string): void;
  sampleFailed(error: unknown): void;
  offboarded(offboardingId: string): void;
  offboardingFailed(error: unknown): void;
}

/** What a worker does for each job. */
export function createHandlers(options: HandlerOptions): JobHandlers {
  const { producer, executor, admission, reports } = options;
  const { context, guard } = executor;
  const { crowd } = admission;
  const enqueue = async (entries: readonly QueueEntry[], smallSlots: number) =>
    producer.addRuns(
      context.traces ? await traceSends(context, context.traces, entries) : entries,
      admission.runsPerJob(entries.length, smallSlots),
    );
  const dispatch = shareNext(async () => void (await dispatchWaiting(context, enqueue, crowd)));
  // A tick notices what time brings.
  const dispatchDue = shareNext(async () => void (await dispatchRuns(context, enqueue, crowd)));
  const advance = shareNextById(async (backfillId) => {
    reports.runsMade('backfill', await advanceBackfill(context, executor.statements, backfillId));
  });
  // A duty that takes long must use one slot of this worker, however often it is enqueued.
  const decide = skipWhileBusy(async () => {
    const onError = reports.scheduleFailed;
    reports.runsMade('tick', await decideTicks(context, { onError }));
  });
  const collect = skipWhileBusy(async () => {
    await collectUploads(executor);
    await comparePlaces(executor);
    await collectFiles(executor);
  });
  const slow = new SlowExports();
  const look = skipWhileBusy(() =>
    lookBack(context, {
      guard,
      slow,
      sourceOf: executor.connectors.sourceOf,
      keepsFiles: executor.connectors.keepsFiles,
      onError: executor.onLookBackError,
      // If it fails, the next tick dispatches the run.
      onMade: () => void dispatch().catch(() => {}),
      stopping: executor.stopping,
    }),
  );
  let sweeps = 0;
  const verify = skipWhileBusy(options.verify);
  const sample = sampleJobs({
    ...{ context, guard, memory: admission.memory, sampleRows: options.sampleRows },
    onSampleError: reports.sampleFailed,
  });
  const offboard = skipWhileBusy(() =>
    offboardTenants({
      ...{ context, executor, producer, guard },
      onOffboarded: reports.offboarded,
      onOffboardingError: reports.offboardingFailed,
    }),
  );
  const retain = skipWhileBusy(() => applyRetention(context));
  // A restored or copied database does nothing until an operator accepts it: the original may still run.
  const unlessHeld =
    <Data>(work: (data: Data) => Promise<void>) =>
    async (data: Data) => {
      if (!(await currentEra(context.db)).held) await work(data);
    };
  const needs = new Grouped(
    (runIds: readonly string[]) => findRunNeeds(context.db, runIds),
    isDatabaseUnavailable,
  );
  const execute = async ({ runId, traceparent }: JobData['execute-run'], small: boolean) => {
    const attempt = () => admitAndExecute(options, needs, runId, small);
    const parent = traceparent ?? null;
    const report = await traceProcess(context.traces, small, runId, parent, attempt);
    return report?.run ?? null;
  };
  const waiting = new Set<string>();
  const proceed = paced(async () => {
    // Another worker goes on.
    if (executor.stopping.aborted) return;
    const backfillIds = [...waiting];
    waiting.clear();
    const advanced = await Promise.allSettled(backfillIds.map(advance));
    await dispatch();
    for (const one of advanced) if (one.status === 'rejected') throw one.reason;
  });
  /** A place is free: the next run need not wait for the next tick. */
  const continueAfter = ({ backfillId }: ClaimedRun, canWait: boolean): Promise<void> => {
    if (backfillId !== null) waiting.add(backfillId);
    return proceed(canWait);
  };
  /** The database may be closed before the last of them has ended. */
  const unlessStopping = (error: unknown) => {
    if (!executor.stopping.aborted) reports.runFailed(error);
  };
  const executeSmall = ({ runs }: JobData['execute-small-runs']) =>
    admission.beginSmall(
      runs.map((data) => async () => {
        const run = await execute(data, true).catch(reports.runFailed);
        // The next one does not wait for it.
        if (run) void continueAfter(run, admission.room().isFull).catch(unlessStopping);
      }),
    );
  return {
    tick: unlessHeld(async () => {
      await decide();
      await dispatchDue();
    }),
    'dispatch-runs': unlessHeld(dispatch),
    'execute-run': async (data) => {
      const run = await execute(data, false);
      if (run) await continueAfter(run, false);
    },
    'execute-small-run': (data) => executeSmall({ runs: [data] }),
    'execute-small-runs': executeSmall,
    'advance-backfill': unlessHeld(async ({ backfillId }) => {
      await advance(backfillId);
      await dispatch();
    }),
    sweep: unlessHeld(async () => {
      // Exports without an objective of their own have no index: one look per minute.
      const usual = { minutes: context.policy.freshnessMinutes };
      await checkFreshness(context.db, sweeps % 12 === 0 ? usual : undefined);
      if (sweeps % 12 === 0) await checkCompleteness(context.db);
      void verify();
      sweeps += 1;
      await options.courier.collect();
      await sweepExpiredLeases(context.db);
      const ended = await removeEndedEntries(context.db);
      if (ended > 0) reports.runFailed(new Error(`the outbox held ${ended} runs that had ended`));
      await sweepWorkers(context.db);
      await advanceTasks(context);
      await checkDeadlines(context);
      reports.runsMade('healing', await heal(context));
      for (const backfillId of await listRunningBackfills(context.db)) await advance(backfillId);
      await dispatch();
      await collect();
      // Long jobs must not hold up the rest of the sweep.
      void sample().catch(reports.sampleFailed);
      await offboard();
      // The last, as it may take long.
      await look();
    }),
    'apply-retention': retain,
  };
}

/**
 * Executes a run once its interval has settled and it was admitted. It is not claimed before, so another worker may take it
 * meanwhile: the dispatcher re-enqueues a run that no worker claims.
 *
 * @param small whether it came as a run that is expected to be small
 */
async function admitAndExecute(
  options: HandlerOptions,
  needsOf: Grouped<string, RunNeeds | null>,
  runId: string,
  small: boolean,
): Promise<AttemptReport | null> {
  const { executor } = options;
  const { db, policy } = executor.context;
  const needs = await retryUntilRecorded(
    () => needsOf.take(runId),
    AbortSignal.timeout(policy.leaseMs / 2),
  );
  if (!needs || needs.isHeld) return null;
  const isAlone = needs.crashes >= policy.maxSharedCrashes;
  if (small && (!needs.small || needs.ownSteps > 0 || isAlone)) {
    // Its neighbours may have ended since it was enqueued. A process of its own needs memory from the start.
    await expectLarge(db, runId);
    return null;
  }
  // The dispatcher enqueues it again, here or at another worker.
  const endTurn = isAlone ? executor.program.turns.enter() : () => {};
  if (!endTurn) return null;
  try {
    return await admitAndRead(options, runId, { ...needs, small, isAlone });
  } finally {
    endTurn();
  }
}

async function admitAndRead(
  { executor, admission, parking, reports }: HandlerOptions,
  runId: string,
  run: RunNeeds & ComingRun,
): Promise<AttemptReport | null> {
  // The attempt of a run whose source is known not to work makes no request either.
  const readiness = isKnownDead(executor, run)
    ? { settlement: null }
    : await parking.settle(runId, run);
  if (readiness === 'parked') return null;
  const ticket = await admission.enter(run);
  if (!ticket) return null;
  try {
    const startedAt = performance.now();
    const report = await executeRun(executor, runId, { ...readiness, ticket });
    reports.attemptEnded(report, (performance.now() - startedAt) / 1_000);
    return report;
  } finally {
    ticket.leave();
  }
}

function isKnownDead(
  { connectors }: ExecutorOptions,
  { deadSources, isProbe, model }: RunNeeds,
): boolean {
  if (deadSources.length === 0 || isProbe) return false;
  try {
    return deadSources.includes(connectors.sourcePlaceOf(model));
  } catch {
    return false;
  }
}
