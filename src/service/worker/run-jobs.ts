import { Grouped } from '../../foundation/domain/grouped.ts';
import type { JobData } from '../../state/queue/catalogue.ts';
import { isDatabaseUnavailable } from '../../state/store/database/unavailable.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';
import { expectLarge, findRunNeeds, type RunNeeds } from '../../state/store/runs/outbox.ts';
import type { ComingRun } from '../admission/admission.ts';
import type { AttemptReport } from './attempt-report.ts';
import type { ExecutorOptions, HandlerOptions } from './handler-options.ts';
import { StepWatch } from './step-watch.ts';
import { retryUntilRecorded } from './retry-until-recorded.ts';
import { paced } from './shared-work.ts';
import { traceProcess } from './trace-jobs.ts';
import { randomUUID } from 'node:crypto';
import { ownStepsOf } from '../../foundation/domain/recipe.ts';
import { inSpan } from '../../foundation/domain/traces.ts';
import { failpoint } from '../../foundation/failpoints/failpoint.ts';
import { releaseRun } from '../use-cases/runs/finish-run.ts';
import { type Admitted, Attempt } from './attempt.ts';
import { runAlone } from './run-alone.ts';

type RunJobOptions = Pick<HandlerOptions, 'executor' | 'admission' | 'waits' | 'reports'>;

/** What looks for more work when a run has ended. */
export interface NextRuns {
  /** Makes the next runs of a backfill. */
  advance(backfillId: string): Promise<void>;
  /** Enqueues the runs that may begin. */
  dispatch(): Promise<void>;
}

/** The jobs that execute runs. When one ends, its backfill goes on and the dispatcher looks for more. */
export class RunJobs {
  readonly #options: RunJobOptions;
  readonly #needs: Grouped<string, RunNeeds | null>;
  /** Backfills to continue: a run of each has ended. */
  readonly #waiting = new Set<string>();
  readonly #proceed: (canWait: boolean) => Promise<void>;

  constructor(options: RunJobOptions, next: NextRuns) {
    this.#options = options;
    const { context } = options.executor;
    this.#needs = new Grouped(
      (runIds: readonly string[]) => findRunNeeds(context.db, runIds),
      isDatabaseUnavailable,
    );
    this.#proceed = paced(() => this.#takeMore(next));
  }

  async executeLarge(data: JobData['execute-run']): Promise<void> {
    const run = await this.#execute(data, false);
    if (run) await this.#continueAfter(run, false);
  }

  /** Begins each as soon as there is room. Then the job ends; the runs go on. */
  executeSmall({ runs }: JobData['execute-small-runs']): Promise<void> {
    const { admission, reports } = this.#options;
    return admission.beginSmall(
      runs.map((data) => async () => {
        const run = await this.#execute(data, true).catch(reports.runFailed);
        // The next one does not wait for it.
        if (!run) return;
        void this.#continueAfter(run, admission.room().isFull).catch(this.#unlessStopping);
      }),
    );
  }

  async #execute(
    { runId, traceparent }: JobData['execute-run'],
    small: boolean,
  ): Promise<ClaimedRun | null> {
    const { traces } = this.#options.executor.context;
    const attempt = () => this.#admitAndExecute(runId, small);
    const report = await traceProcess(traces, small, runId, traceparent ?? null, attempt);
    return report?.run ?? null;
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
  async #admitAndExecute(runId: string, small: boolean): Promise<AttemptReport | null> {
    const { executor } = this.#options;
    const { db, policy } = executor.context;
    const needs = await retryUntilRecorded(
      () => this.#needs.take(runId),
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
      return await this.#admitAndRead(runId, { ...needs, small, isAlone });
    } finally {
      endTurn();
    }
  }

  async #admitAndRead(runId: string, run: RunNeeds & ComingRun): Promise<AttemptReport | null> {
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
      return report;
    } finally {
      ticket.leave();
    }
  }
}

/**
 * Executes one attempt of a run: claim, export, record. A run that has ended, was deleted or is held by
 * another worker is skipped, so the same job may be delivered any number of times. A run during which
 * workers have crashed gets a process of its own.
 */
async function executeRun(
  options: ExecutorOptions,
  runId: string,
  admitted: Admitted | null = null,
): Promise<AttemptReport> {
  const { context, leases, program } = options;
  const claimedAt = performance.now();
  const run = await inSpan(context.traces, 'claim', {}, () => claim(options, runId));
  if (!run) return { run, end: 'skipped', fault: null, rows: 0, bytes: 0, rejectedRows: 0 };
  if (admitted && ownStepsOf(run.chain) > admitted.ticket.ownSteps) {
    // A config was enabled between the admission and the claim, which pinned it: there is no memory set aside.
    await retryUntilRecorded(() => releaseRun(context, run), AbortSignal.timeout(5_000));
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

/**
 * If the answer to a claim was lost, the claim is repeated under the same name: no other worker would renew
 * it.
 */
function claim(
  { context: { policy }, statements, workerId }: ExecutorOptions,
  runId: string,
): Promise<ClaimedRun | null> {
  const holder = `${workerId}/${randomUUID()}`;
  return retryUntilRecorded(
    () => statements.claim({ runId, holder }),
    AbortSignal.timeout(policy.leaseMs / 2),
  );
}
