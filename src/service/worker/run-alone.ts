import { SluiceError, toSluiceError } from '../../foundation/domain/errors.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';
import type { Context } from '../use-cases/context.ts';
import { recordFault, releaseRun } from '../use-cases/runs/finish-run.ts';
import { recordDeathAlone } from '../use-cases/runs/record-death.ts';
import type { AloneTurns } from './alone-turns.ts';
import type { AttemptReport } from './attempt-report.ts';
import { retryUntilRecorded } from './retry-until-recorded.ts';
import { type JobProgram, runChild } from './watch-child.ts';

/** What the composition root provides for runs with a process of their own. */
export interface ChildProgram extends JobProgram {
  readonly turns: AloneTurns;
}

/** An event loop that is silent for this time hangs; load alone does not delay it that much. */
const minSilentMs = 30_000;

/**
 * Executes a claimed run in its own process: a crash there is proof against this run and harms no other.
 * The worker keeps the lease, and records the crash.
 *
 * @param signal as for an attempt in this process
 */
export async function runAlone(
  context: Context,
  program: ChildProgram,
  run: ClaimedRun,
  signal: AbortSignal,
): Promise<AttemptReport> {
  const silentMs = Math.max(context.policy.leaseMs, minSilentMs);
  const end = signal.aborted
    ? null
    : await runChild<Omit<AttemptReport, 'run'>>(program, run, silentMs, signal);
  if (end && 'report' in end) return { ...end.report, run };
  const nothing = { run, fault: null, rows: 0, bytes: 0, rejectedRows: 0 };
  if (signal.aborted) {
    const { code } = toSluiceError(signal.reason);
    if (code !== 'run.released') return { ...nothing, end: 'lost' };
    await retryUntilRecorded(() => releaseRun(context, run), AbortSignal.timeout(5_000));
    return { ...nothing, end: 'released' };
  }
  if (!end || 'notStarted' in end) {
    const error = toSluiceError(end?.notStarted);
    await retryUntilRecorded(() => recordFault(context, run, error, Math.random()), signal);
    return { ...nothing, end: 'failed', fault: error.code };
  }
  await retryUntilRecorded(() => recordDeathAlone(context, run, end.death), signal);
  return { ...nothing, end: 'failed', fault: new SluiceError('run.crashed').code };
}
