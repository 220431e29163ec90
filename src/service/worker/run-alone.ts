import { type ErrorCode, SluiceError, toSluiceError } from '../../foundation/domain/errors.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';
import type { Context } from '../use-cases/context.ts';
import { recordDeathAlone, recordFault, releaseRun } from '../use-cases/runs/finish-run.ts';
import type { AttemptReport } from './attempt-end.ts';
import { retryUntilRecorded } from './own-fault.ts';
import { type ChildProcess, fork } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';

/** The composition root provides this for runs with a process of their own. */
export interface ChildProgram extends JobProgram {
  readonly turns: AloneTurns;
}

/** An event loop that is silent for this time hangs; load alone does not delay it that much. */
const minSilentMs = 30_000;

/** Executes a run in its own process: a crash there harms no other. The worker keeps the lease, and records it. */
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
    await retryUntilRecorded(() => releaseRun(context, run), 5_000);
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

/** The end of a process of its own without a report. */
interface Death {
  /** True if the run caused it: a crash, or too much memory. A kill, an exit or silence may have another cause. */
  readonly certain: boolean;
  /** For the run's log, such as `SIGSEGV`. */
  readonly how: string;
}

type ChildEnd<Report> =
  | { readonly report: Report }
  | { readonly death: Death }
  | { readonly notStarted: Error };

interface ChildLimits {
  readonly memoryBytes: number;
  /** A process that is silent for this time is ended. */
  readonly silentMs: number;
}

const lookEveryMs = 250;
/** Time that a process has to stop after its signal is aborted, or after its report. */
const stopMs = 30_000;
const farewellMs = 5_000;

const crashSignals = new Set('SIGABRT SIGSEGV SIGBUS SIGILL SIGFPE SIGTRAP SIGSYS'.split(' '));
/** The shell's number for SIGABRT; Node exits with it on some systems. */
const abortedCode = 134;

/** A program that does one job in a process of its own, by `serveJob`. */
interface JobProgram {
  readonly entry: string;
  /** The program opens its connections and connectors by it. Passed unchanged. */
  readonly setup: unknown;
  readonly memoryMib: number;
}

/** The heap's share of the process's memory; a job's data is outside the heap. */
const heapShare = 0.5;

/** Does a job in a process of its own. @param silentMs after which a process that does not respond is ended */
function runChild<Report>(
  { entry, setup, memoryMib }: JobProgram,
  job: unknown,
  silentMs: number,
  signal: AbortSignal,
): Promise<ChildEnd<Report>> {
  // This process has the debugger's port.
  const inherited = process.execArgv.filter((argument) => !argument.startsWith('--inspect'));
  const child = fork(entry, {
    execArgv: [...inherited, `--max-old-space-size=${Math.floor(memoryMib * heapShare)}`],
    // The secrets of a run are bytes.
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const message: ToChild = { kind: 'execute', setup, job };
  child.send(message, () => {});
  return watchChild(child, { memoryBytes: memoryMib * 1024 ** 2, silentMs }, signal);
}

/** Waits until the process has ended; asks it to stop when `signal` is aborted. */
function watchChild<Report>(
  child: ChildProcess,
  limits: ChildLimits,
  signal: AbortSignal,
): Promise<ChildEnd<Report>> {
  return new Promise((resolve) => {
    let report: Report | null = null;
    let killedFor: Death | null = null;
    let silentLooks = 0;
    const kill = (death: Death) => {
      killedFor ??= death;
      child.kill('SIGKILL');
    };
    const timers = new Set<NodeJS.Timeout>();
    const killLater = (ms: number) => void timers.add(setTimeout(() => child.kill('SIGKILL'), ms));

    const stop = () => {
      const { code } = toSluiceError(signal.reason);
      const message: ToChild = { kind: 'stop', code };
      if (child.connected) child.send(message, () => {});
      killLater(stopMs);
    };
    child.on('message', (message: FromChild<Report>) => {
      silentLooks = 0;
      if (message.kind === 'alive') return;
      report = message.report;
      killLater(farewellMs);
    });
    // Counts checks, not time: while this process is frozen, the child must not be judged.
    const looking = setInterval(() => {
      silentLooks += 1;
      if (silentLooks * lookEveryMs > limits.silentMs) {
        kill({ certain: false, how: `no heartbeat for ${limits.silentMs / 1_000} s` });
      }
      void residentBytes(child.pid).then((bytes) => {
        if (bytes <= limits.memoryBytes) return;
        const mebibytes = limits.memoryBytes / 1024 ** 2;
        kill({ certain: true, how: `it needed more than ${mebibytes} MiB of memory` });
      });
    }, lookEveryMs);
    const end = (how: ChildEnd<Report>) => {
      clearInterval(looking);
      for (const timer of timers) clearTimeout(timer);
      signal.removeEventListener('abort', stop);
      resolve(how);
    };
    child.once('error', (error) => {
      if (child.pid === undefined) end({ notStarted: error });
    });
    child.once('exit', (code, by) => {
      if (report) end({ report });
      else end({ death: killedFor ?? deathOf(code, by) });
    });
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
  });
}

function deathOf(code: number | null, signal: NodeJS.Signals | null): Death {
  if (signal !== null) return { certain: crashSignals.has(signal), how: signal };
  return { certain: code === abortedCode, how: `exit code ${code}` };
}

/** 0 if this system does not say; the heap limit applies there too. */
async function residentBytes(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
}

/** Messages of a worker to a process of its own. `setup` and `job` belong to the composition root. */
type ToChild =
  | { readonly kind: 'execute'; readonly setup: unknown; readonly job: unknown }
  /** The lease is lost, or the worker shuts down. */
  | { readonly kind: 'stop'; readonly code: ErrorCode };

/** Messages of such a process to its worker. */
type FromChild<Report> =
  | { readonly kind: 'alive' }
  | { readonly kind: 'ended'; readonly report: Report };

const aliveEveryMs = 1_000;

/** Lets one run at a time have a process of its own, for its memory. Another one is not claimed: it would hold a slot. */
export class AloneTurns {
  #isTaken = false;

  /** @returns a function to call when the process has ended; null if another run has one */
  enter(): (() => void) | null {
    if (this.#isTaken) return null;
    this.#isTaken = true;
    return () => {
      this.#isTaken = false;
    };
  }
}

/** A child without its worker has this long to stop; the fence checks each of its writes anyway. */
const orphanMs = 5_000;

/** Does one job of a worker in a process, reports and exits. It ends with its worker, which keeps the lease. */
export function serveJob<Report>(
  execute: (setup: unknown, job: unknown, signal: AbortSignal) => Promise<Report>,
): void {
  const stopping = new AbortController();
  const stop = (error: SluiceError) => stopping.abort(error);
  // If the machine runs out of memory, the system ends this process first.
  writeFile('/proc/self/oom_score_adj', '1000').catch(() => {});
  // Ctrl-C reaches every process of the terminal. The job is handed back, as in its worker.
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(name, () => stop(new SluiceError('run.released')));
  }
  process.on('disconnect', () => {
    stop(new SluiceError('run.lease_lost'));
    setTimeout(() => process.exit(), orphanMs).unref();
  });
  process.on('message', (message: ToChild) => {
    if (message.kind === 'stop') return stop(new SluiceError(message.code));
    const executing = execute(message.setup, message.job, stopping.signal);
    void executing.then((report) => send({ kind: 'ended', report }, () => process.exit()));
  });
  setInterval(() => send({ kind: 'alive' }), aliveEveryMs);
  // The worker may have ended while this program was loading: no event reports that any more.
  if (!process.connected) process.exit();
}

function send<Report>(message: FromChild<Report>, sent: () => void = () => {}): void {
  // Without its worker nothing can be reported; `disconnect` follows.
  if (process.connected) process.send?.(message, sent);
  else sent();
}
