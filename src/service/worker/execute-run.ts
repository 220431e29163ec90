import { randomUUID } from 'node:crypto';
import { ownStepsOf } from '../../foundation/domain/recipe.ts';
import { inSpan } from '../../foundation/domain/traces.ts';
import { failpoint } from '../../foundation/failpoints/failpoint.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';
import type { LookBack } from '../../state/store/intervals/look-backs.ts';
import { releaseRun } from '../use-cases/runs/finish-run.ts';
import { type Admitted, Attempt, type AttemptOptions } from './attempt.ts';
import type { AttemptReport } from './attempt-report.ts';
import type { LeaseKeeper } from './lease-keeper.ts';
import { retryUntilRecorded } from './retry-until-recorded.ts';
import { StepWatch } from './step-watch.ts';
import { type ChildProgram, runAlone } from './run-alone.ts';

export interface ExecutorOptions extends AttemptOptions {
  readonly leases: LeaseKeeper;
  /** The worker's name in the lease. */
  readonly workerId: string;
  /** Aborted when the worker shuts down. */
  readonly stopping: AbortSignal;
  /** For runs that get a process of their own. */
  readonly program: ChildProgram;
  readonly onSweepError: (error: unknown) => void;
  readonly onLookBackError: (error: unknown, item: LookBack) => void;
}

/**
 * Executes one attempt of a run: claim, export, record. A run that has ended, was deleted or is held by
 * another worker is skipped, so the same job may be delivered any number of times. A run during which
 * workers have crashed gets a process of its own.
 */
export async function executeRun(
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
