import { readFileSettings } from '../../foundation/domain/file-settings.ts';
import { Grouped } from '../../foundation/domain/grouped.ts';
import {
  idleWorkerBytes,
  readBackBytes,
  smallRunBytes,
} from '../../rows/pipeline/memory-budget.ts';
import type { ReadingTurns } from '../../rows/pipeline/reading-turns.ts';
import type { JobData, JobHandlers } from '../../state/queue/catalogue.ts';
import type { Producer } from '../../state/queue/producer.ts';
import { listRunningBackfills } from '../../state/store/backfills.ts';
import type { ClaimedRun } from '../../state/store/claims.ts';
import { currentEra } from '../../state/store/eras.ts';
import { checkFreshness } from '../../state/store/freshness.ts';
import { sweepExpiredLeases } from '../../state/store/leases.ts';
import { expectLarge, removeEndedEntries } from '../../state/store/outbox.ts';
import { findRunNeeds, type RunNeeds } from '../../state/store/run-needs.ts';
import { isDatabaseUnavailable } from '../../state/store/unavailable.ts';
import { sweepWorkers } from '../../state/store/workers.ts';
import { advanceBackfill } from '../use-cases/backfills/advance-backfill.ts';
import { applyRetention } from '../use-cases/installation/apply-retention.ts';
import type { Crowd } from '../use-cases/runs/crowd.ts';
import { decideTicks } from '../use-cases/runs/decide-ticks.ts';
import { dispatchRuns, dispatchWaiting, type QueueEntry } from '../use-cases/runs/dispatch-runs.ts';
import { lookBack } from '../use-cases/runs/look-back.ts';
import { SlowExports } from '../use-cases/runs/slow-exports.ts';
import type { AttemptReport } from './attempt-report.ts';
import { collectFiles } from './collect-files.ts';
import { collectUploads } from './collect-uploads.ts';
import { comparePlaces } from './compare-places.ts';
import type { CpuUse } from './cpu-use.ts';
import { type ExecutorOptions, executeRun } from './execute-run.ts';
import type { NotificationCourier } from './notification-courier.ts';
import { type OffboardOptions, offboardTenants } from './offboard-tenants.ts';
import type { Parking, Readiness } from './parking.ts';
import { retryUntilRecorded } from './retry-until-recorded.ts';
import { type RunPlaces, runsPerJob } from './run-places.ts';
import { type SampleOptions, sampleJobs } from './run-sample-jobs.ts';
import { paced, shareNext, shareNextById, skipWhileBusy } from './shared-work.ts';
import { SmallRun } from './small-run.ts';
import { traceProcess, traceSends } from './trace-jobs.ts';
import type { WorkClock } from './work-clock.ts';

export interface HandlerOptions
  extends SampleOptions,
    Pick<OffboardOptions, 'onOffboarded' | 'onOffboardingError'> {
  readonly producer: Producer;
  readonly executor: ExecutorOptions;
  readonly workClock: WorkClock;
  readonly cpuUse: CpuUse;
  readonly turns: ReadingTurns;
  readonly courier: Pick<NotificationCourier, 'collect'>;
  readonly crowd: Crowd;
  readonly parking: Parking;
  /** For small runs. */
  readonly places: RunPlaces;
  /** Called if a small run throws: its job has ended before. */
  readonly onRunError: (error: unknown) => void;
  /** Called before the small runs of a job. */
  readonly onSmallRuns: () => void;
  /** Called before a run that is not expected to be small. */
  readonly onLargeRun: () => void;
  readonly onAttemptEnd: (report: AttemptReport, seconds: number) => void;
  readonly onRunsMade: (by: 'tick' | 'backfill', runs: number) => void;
  readonly onScheduleError: (error: unknown, exportId: string) => void;
}

/** What a worker does for each job. */
export function createHandlers(options: HandlerOptions): JobHandlers {
  const { context, producer, executor, crowd, guard } = options;
  const enqueue = async (entries: readonly QueueEntry[], smallPlaces: number) =>
    producer.addRuns(
      context.traces ? await traceSends(context, context.traces, entries) : entries,
      runsPerJob(entries.length, options.places.places, smallPlaces),
    );
  const dispatch = shareNext(async () => void (await dispatchWaiting(context, enqueue, crowd)));
  // A tick notices what time brings.
  const dispatchDue = shareNext(async () => void (await dispatchRuns(context, enqueue, crowd)));
  const advance = shareNextById(async (backfillId) => {
    options.onRunsMade('backfill', await advanceBackfill(context, executor.statements, backfillId));
  });
  // A duty that takes long must use one slot of this worker, however often it is enqueued.
  const decide = skipWhileBusy(async () => {
    const onError = options.onScheduleError;
    options.onRunsMade('tick', await decideTicks(context, { onError }));
  });
  const collect = skipWhileBusy(async () => {
    const sweep = { ...executor, guard };
    await collectUploads(sweep);
    await comparePlaces(sweep);
    await collectFiles(sweep);
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
  const sample = sampleJobs(options);
  const offboard = skipWhileBusy(() => offboardTenants(options));
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
  const executeSmall = async ({ runs }: JobData['execute-small-runs']) => {
    options.onSmallRuns();
    for (const data of runs) {
      await options.places.begin(async () => {
        const run = await execute(data, true).catch(options.onRunError);
        // The place does not wait for it.
        if (run) void continueAfter(run, options.places.hasNext).catch(options.onRunError);
      });
    }
  };
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
      await checkFreshness(context.db);
      await options.courier.collect();
      await sweepExpiredLeases(context.db);
      const ended = await removeEndedEntries(context.db);
      if (ended > 0) options.onRunError(new Error(`the outbox held ${ended} runs that had ended`));
      await sweepWorkers(context.db);
      for (const backfillId of await listRunningBackfills(context.db)) await advance(backfillId);
      await dispatch();
      await collect();
      // Long jobs must not hold up the rest of the sweep.
      void sample().catch(options.onSampleError);
      await offboard();
      // The last, as it may take long.
      await look();
    }),
    'apply-retention': retain,
  };
}

/**
 * Executes a run once its interval has settled and there is memory for it. It is not claimed before, so another worker may take it
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
  const { context, executor, crowd, parking, turns } = options;
  const needs = await retryUntilRecorded(
    () => needsOf.take(runId),
    AbortSignal.timeout(context.policy.leaseMs / 2),
  );
  // An entry may be older than what is expected of the run now.
  if (!needs || needs.isHeld || (small && !needs.small)) return null;
  const { organizationId, ownSteps } = needs;
  crowd.see([organizationId]);
  const isAlone = needs.crashes >= context.policy.maxSharedCrashes;
  if (small && (ownSteps > 0 || isAlone)) {
    // A process of its own needs memory from the start.
    await expectLarge(context.db, runId);
    return null;
  }
  // The dispatcher enqueues it again, here or at another worker.
  const leave = isAlone ? executor.program.turns.enter() : () => {};
  if (leave === null) return null;
  const begin = async () => {
    const readiness = await parking.settle(runId, needs);
    if (readiness === 'parked') return null;
    const place = await (small ? enterSmall(options, needs) : enterLarge(options, needs, isAlone));
    return place && executeIn(options, runId, needs, readiness, place);
  };
  if (!small) return begin().finally(leave);
  return turns.execute(organizationId, executor.stopping, begin).catch((error: unknown) => {
    // It waited for its turn: nothing was begun.
    if (error === executor.stopping.reason) return null;
    throw error;
  });
}

async function executeIn(
  { executor, onLargeRun, onAttemptEnd, workClock, cpuUse }: HandlerOptions,
  runId: string,
  { teamId, organizationId, ownSteps }: RunNeeds,
  readiness: Exclude<Readiness, 'parked'>,
  place: Place,
): Promise<AttemptReport> {
  const endWork = workClock.begin(teamId);
  const endUse = cpuUse.begin(organizationId);
  try {
    const startedAt = performance.now();
    if (!place.admission.small) onLargeRun();
    const admission = { organizationId, ownSteps, ...readiness, ...place.admission };
    const report = await executeRun(executor, runId, admission);
    onAttemptEnd(report, (performance.now() - startedAt) / 1_000);
    return report;
  } finally {
    endUse();
    endWork();
    place.leave();
  }
}

/** Memory that a run has until it leaves. */
interface Place {
  readonly leave: () => void;
  readonly admission: { readonly small?: SmallRun };
}

/** @returns null if the worker ends */
async function enterLarge(
  { executor, memory }: HandlerOptions,
  needs: RunNeeds,
  isAlone: boolean,
): Promise<Place | null> {
  const { ownSteps } = needs;
  const memoryFor = memoryOf(executor, needs);
  // A run that never fits fails at its start, so it need not wait until all other runs have ended.
  const fits = memoryFor(ownSteps) <= executor.memoryBytes;
  const bytes = memoryFor(fits ? ownSteps : 0);
  const leave = await memory.enter(bytes + (isAlone ? idleWorkerBytes : 0));
  return leave && { leave, admission: {} };
}

async function enterSmall(
  { executor, memory }: HandlerOptions,
  needs: RunNeeds,
): Promise<Place | null> {
  const full = memoryOf(executor, needs)(0);
  const place = await memory.enterSmall(Math.min(smallRunBytes, full));
  return place && { leave: () => place.leave(), admission: { small: new SmallRun(place, full) } };
}

/** Bytes that a large run needs, by the number of its steps with an own plugin. */
function memoryOf(
  { connectors }: ExecutorOptions,
  { type, config, transformations, purpose }: RunNeeds,
): (ownSteps: number) => number {
  const files = readFileSettings(config);
  const reading = purpose === 'whole' ? 0 : readBackBytes;
  return (ownSteps) => reading + connectors.memoryOf(type, files, transformations, ownSteps);
}
