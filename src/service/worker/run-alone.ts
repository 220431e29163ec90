import { fork } from 'node:child_process';
import { SluiceError, toSluiceError } from '../../foundation/domain/errors.ts';
import type { ClaimedRun } from '../../state/store/claims.ts';
import type { Context } from '../use-cases/context.ts';
import { recordFault, releaseRun } from '../use-cases/runs/finish-run.ts';
import { recordDeathAlone } from '../use-cases/runs/record-death.ts';
import type { AloneTurns } from './alone-turns.ts';
import type { AttemptReport } from './attempt-report.ts';
import type { ToChild } from './child-messages.ts';
import { retryUntilRecorded } from './retry-until-recorded.ts';
import { type ChildEnd, watchChild } from './watch-child.ts';

/** What the composition root provides for runs with a process of their own. */
export interface ChildProgram {
  /** The file of the program, which calls `serveRun`. */
  readonly entry: string;
  /** What the program needs to open its connections and connectors. Passed unchanged. */
  readonly setup: unknown;
  /** Of the whole process. */
  readonly memoryMib: number;
  readonly turns: AloneTurns;
}

/** The heap's share of the process's memory; a run's data is outside the heap. */
const heapShare = 0.5;

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
  const end = signal.aborted ? null : await execute(context, program, run, signal);
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

function execute(
  { policy }: Context,
  { entry, setup, memoryMib }: ChildProgram,
  run: ClaimedRun,
  signal: AbortSignal,
): Promise<ChildEnd> {
  // This process has the debugger's port.
  const inherited = process.execArgv.filter((argument) => !argument.startsWith('--inspect'));
  const child = fork(entry, {
    execArgv: [...inherited, `--max-old-space-size=${Math.floor(memoryMib * heapShare)}`],
    // The secrets of a run are bytes.
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const message: ToChild = { kind: 'execute', setup, run };
  child.send(message, () => {});
  const limits = {
    memoryBytes: memoryMib * 1024 ** 2,
    silentMs: Math.max(policy.leaseMs, minSilentMs),
  };
  return watchChild(child, limits, signal);
}
