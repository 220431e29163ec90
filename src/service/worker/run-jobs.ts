import { randomUUID } from 'node:crypto';
import { Grouped } from '../../foundation/domain/grouped.ts';
import { ownStepsOf } from '../../foundation/domain/recipe.ts';
import { readsSource } from '../../foundation/domain/run.ts';
import { failpoint } from '../../foundation/failpoints/failpoint.ts';
import { describeOpen } from '../../rows/pipeline/describe-unsettled.ts';
import type { Settlement, Source } from '../../rows/sources/source.ts';
import type { JobData, JobHandlers } from '../../state/queue/catalogue.ts';
import { currentEra } from '../../state/store/database/eras.ts';
import type { Sql } from '../../state/store/database/database.ts';
import { isDatabaseUnavailable } from '../../state/store/database/unavailable.ts';
import { appendLogEntries, type NewLogEntry } from '../../state/store/exports/log-entries.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';
import {
  expectLarge,
  findRunNeeds,
  goBack,
  type RunNeeds,
  type WaitingRun,
} from '../../state/store/runs/outbox.ts';
import {
  type ComingRun,
  dispatchRuns,
  dispatchWaiting,
  type QueueEntry,
} from '../admission/admission.ts';
import { advanceBackfill } from '../use-cases/backfills/advance-backfill.ts';
import { applyRetention } from '../use-cases/installation/apply-retention.ts';
import { decideTicks } from '../use-cases/runs/decide-ticks.ts';
import { releaseRun } from '../use-cases/runs/finish-run.ts';
import type { AttemptReport } from './attempt-end.ts';
import { type Admitted, Attempt } from './attempt.ts';
import type { ExecutorOptions, HandlerOptions, NextRuns, Readiness } from './options.ts';
import { retryUntilRecorded } from './own-fault.ts';
import { runAlone } from './run-alone.ts';
import { paced, shareNext, shareNextById, skipWhileBusy } from './shared-work.ts';
import { StepWatch } from './step-watch.ts';
import { createSweep } from './sweep.ts';

export function createHandlers(options: HandlerOptions): JobHandlers {
  const { producer, executor, admission, reports } = options;
  const { context, statements } = executor;
  const { crowd } = admission;
  const enqueue = async (entries: readonly QueueEntry[], smallSlots: number) =>
    producer.addRuns(entries, admission.smallSlots.perJob(entries.length, smallSlots));
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

type RunJobOptions = Pick<HandlerOptions, 'executor' | 'admission' | 'waits' | 'reports'>;

/** The jobs that execute runs. When one ends, its backfill goes on and the dispatcher looks for more. */
class RunJobs {
  readonly #options: RunJobOptions;
  readonly #needs: Grouped<string, RunNeeds | null>;
  /** Backfills to continue: a run of each has ended. */
  readonly #waiting = new Set<string>();
  readonly #proceed: (canWait: boolean) => Promise<void>;

  constructor(options: RunJobOptions, next: NextRuns) {
    this.#options = options;
    const { context } = options.executor;
    const find = (runIds: readonly string[]) => findRunNeeds(context.db, runIds);
    this.#needs = new Grouped(find, isDatabaseUnavailable);
    this.#proceed = paced(() => this.#takeMore(next));
  }

  async executeLarge(data: JobData['execute-run']): Promise<void> {
    const run = await this.#execute(data.runId, false);
    if (run) await this.#continueAfter(run, false);
  }

  /** Begins each as soon as there is room. Then the job ends; the runs go on. */
  executeSmall({ runs }: JobData['execute-small-runs']): Promise<void> {
    const { admission, reports } = this.#options;
    return admission.beginSmall(
      runs.map((data) => async () => {
        const run = await this.#execute(data.runId, true).catch(reports.runFailed);
        // The next one does not wait for it.
        if (!run) return;
        void this.#continueAfter(run, admission.room().isFull).catch(this.#unlessStopping);
      }),
    );
  }

  /** A slot is free: the next run need not wait for the next tick. */
  #continueAfter({ backfillId }: ClaimedRun, canWait: boolean): Promise<void> {
    if (backfillId !== null) this.#waiting.add(backfillId);
    return this.#proceed(canWait);
  }

  async #takeMore({ advance, dispatch }: NextRuns): Promise<void> {
    // Another worker goes on.
    if (this.#options.executor.stopping.aborted) return;
    const backfillIds = [...this.#waiting];
    this.#waiting.clear();
    const advanced = await Promise.allSettled(backfillIds.map(advance));
    await dispatch();
    for (const one of advanced) if (one.status === 'rejected') throw one.reason;
  }

  /** The database may be closed before the last of them has ended. */
  readonly #unlessStopping = (error: unknown): void => {
    const { executor, reports } = this.#options;
    if (!executor.stopping.aborted) reports.runFailed(error);
  };

  /**
   * Executes a run once its interval has settled and it was admitted. It is not claimed before, so another worker may take it
   * meanwhile: the dispatcher re-enqueues a run that no worker claims.
   *
   * @param small whether it came as a run that is expected to be small
   */
  async #execute(runId: string, small: boolean): Promise<ClaimedRun | null> {
    const { executor } = this.#options;
    const { db, policy } = executor.context;
    const needs = await retryUntilRecorded(() => this.#needs.take(runId), policy.leaseMs / 2);
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
      return await this.#admitAndRead(runId, { ...needs, small, isAlone });
    } finally {
      endTurn();
    }
  }

  async #admitAndRead(runId: string, run: RunNeeds & ComingRun): Promise<ClaimedRun | null> {
    const { executor, admission, waits, reports } = this.#options;
    // A run that is held up makes no request to its source either.
    const readiness = run.isHeldUp ? { settlement: null } : await waits.settle(runId, run);
    if (!readiness) {
      void this.#proceed(true).catch(this.#unlessStopping);
      return null;
    }
    const ticket = await admission.enter(run);
    if (!ticket) return null;
    try {
      const startedAt = performance.now();
      const report = await executeRun(executor, runId, { ...readiness, ticket });
      reports.attemptEnded(report, (performance.now() - startedAt) / 1_000);
      return report.run;
    } finally {
      ticket.leave();
    }
  }
}

/**
 * Executes one attempt of a run, whose job may be delivered any number of times. A run during which workers have
 * crashed gets a process of its own.
 */
async function executeRun(
  options: ExecutorOptions,
  runId: string,
  admitted: Admitted,
): Promise<AttemptReport> {
  const { context, leases, program, statements, workerId } = options;
  const claimedAt = performance.now();
  // If the answer is lost, the claim is repeated under the same name: no other worker would renew it.
  const holder = `${workerId}/${randomUUID()}`;
  const claim = () => statements.claim({ runId, holder });
  const run = await retryUntilRecorded(claim, context.policy.leaseMs / 2);
  if (!run) return { run, end: 'skipped', fault: null, rows: 0, bytes: 0, rejectedRows: 0 };
  if (ownStepsOf(run.chain) > admitted.ticket.ownSteps) {
    // A config was enabled between the admission and the claim, which pinned it: there is no memory set aside.
    await retryUntilRecorded(() => releaseRun(context, run), 5_000);
    return { run, end: 'released', fault: null, rows: 0, bytes: 0, rejectedRows: 0 };
  }
  await failpoint('claim');
  const watch = new StepWatch();
  // A process of its own says nothing of its steps.
  const isAlone = run.crashes >= context.policy.maxSharedCrashes;
  const signal = leases.keep(run, claimedAt, isAlone ? null : watch);
  try {
    return isAlone
      ? await runAlone(context, program, run, signal)
      : await new Attempt(options, run, signal, admitted, watch).execute();
  } finally {
    leases.release(run);
  }
}

/** Time for which a run may use a slot for its interval to settle. */
const patienceMs = 1_000;
/** The source must answer within this time: after five seconds the dispatcher enqueues an unclaimed run again. */
const answerMs = 3_000;
/** For how long a run waits for a source that does not answer. Then its attempt finds out why, and counts the fault. */
const silentMs = 30_000;

/** A run comes back after a quarter of the time that it has waited, but within these bounds. */
const soonestMs = 1_000;
const latestMs = 5_000;
/** If many wait, they come back one after the other in this rhythm, so that they leave the slots and the database to others. */
const rhythmMs = 25;
/** Each comes back within this time, however many wait. */
const longestMs = 30_000;

interface WaitOptions {
  readonly db: Sql;
  readonly leaseMs: number;
  /** @throws SluiceError if there is no such model */
  readonly sourceOf: (model: string) => Source;
  readonly stopping: AbortSignal;
  readonly onError: (error: unknown) => void;
}

interface LoggedRun extends WaitingRun {
  readonly teamId: number;
  readonly exportId: string;
}

const inAttempt: Readiness = { settlement: null };

/**
 * Settles the intervals of runs before they are claimed. A run waits a short time only. Then it goes back to the outbox like a
 * retry, with the names of what is pending, and any worker looks at these again. Meanwhile it uses no slot, memory or lease.
 */
export class SourceWaits {
  readonly #options: WaitOptions;
  readonly #goBack: Grouped<LoggedRun, boolean | null>;
  /** Runs that this worker has put back and that still wait for their time. */
  #away = 0;

  constructor(options: WaitOptions) {
    this.#options = options;
    const record = (runs: readonly LoggedRun[]) => this.#record(runs);
    this.#goBack = new Grouped(record, isDatabaseUnavailable);
  }

  async settle(runId: string, needs: RunNeeds): Promise<Readiness> {
    const { beganCommit, interval, mode, model, purpose, wait } = needs;
    // A commit that was begun may be current already: then the attempt needs no rows. One that only changes files never does.
    if (beganCommit || !readsSource(purpose)) return inAttempt;
    const how = mode === 'append' ? {} : { onlyEnd: true };
    const { sourceOf, stopping } = this.#options;
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(answerMs)]);
    let settlement: Settlement;
    try {
      settlement = await sourceOf(model).settle(interval, signal, { ...wait, ...how, patienceMs });
    } catch {
      if (stopping.aborted) return null;
      const waitedMs = wait?.waitedMs ?? 0;
      // The attempt finds out why, counts the fault and logs it.
      if (!signal.aborted || waitedMs >= silentMs) return inAttempt;
      await this.#putBack(runId, needs, { pending: wait?.pending ?? null, blockers: [] }, silentMs);
      return null;
    }
    const { pending, blockers = [], leftMs = 0 } = settlement;
    if (leftMs === 0) return { settlement };
    await this.#putBack(runId, needs, { pending, blockers }, leftMs);
    return null;
  }

  async #putBack(
    runId: string,
    { teamId, exportId, wait }: RunNeeds,
    { pending, blockers }: Pick<WaitingRun, 'pending' | 'blockers'>,
    leftMs: number,
  ): Promise<void> {
    const forMs = Math.min(this.#pauseAfter(wait?.waitedMs ?? 0), leftMs);
    this.#away += 1;
    setTimeout(() => {
      this.#away -= 1;
    }, forMs).unref();
    const run = { runId, teamId, exportId, forMs, pending, blockers };
    await retryUntilRecorded(() => this.#goBack.take(run), this.#options.leaseMs / 2);
  }

  /** Puts runs back. The log of each says once what it waits for. */
  async #record(runs: readonly LoggedRun[]): Promise<readonly (boolean | null)[]> {
    const { db, onError } = this.#options;
    const areFirst = await goBack(db, runs);
    const entries = runs
      .filter((_, index) => areFirst[index])
      .map(({ runId, teamId, exportId, blockers }): NewLogEntry => {
        return { teamId, exportId, runId, level: 'INFO', message: describeWait(blockers) };
      });
    await appendLogEntries(db, entries).catch(onError);
    return areFirst;
  }

  #pauseAfter(waitedMs: number): number {
    const alone = Math.min(Math.max(waitedMs / 4, soonestMs), latestMs);
    return Math.min(Math.max(alone, this.#away * rhythmMs), longestMs);
  }
}

function describeWait(blockers: readonly string[]): string {
  const open = describeOpen('Now open', blockers);
  return `The run waits until no transaction can add rows to its interval, up to SETTLE_TIMEOUT_SECONDS. It uses no slot while it waits.${open}`;
}
