import { type ChildProcess, fork } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { toSluiceError } from '../../foundation/domain/errors.ts';
import type { FromChild, ToChild } from './child-messages.ts';

/** How a process of its own ended without a report. */
export interface Death {
  /**
   * Whether the run itself caused it: the process crashed, or exceeded its memory. A kill from outside, an
   * exit or silence may have another cause.
   */
  readonly certain: boolean;
  /** For the run's log, such as `SIGSEGV`. */
  readonly how: string;
}

export type ChildEnd<Report> =
  | { readonly report: Report }
  | { readonly death: Death }
  | { readonly notStarted: Error };

export interface ChildLimits {
  readonly memoryBytes: number;
  /** A process that is silent for this time is ended. */
  readonly silentMs: number;
}

const lookEveryMs = 250;
/** How long a process may take to stop after its signal is aborted, or after its report. */
const stopMs = 30_000;
const farewellMs = 5_000;

/** Signals that a process causes itself. */
const crashSignals = new Set([
  'SIGABRT',
  'SIGSEGV',
  'SIGBUS',
  'SIGILL',
  'SIGFPE',
  'SIGTRAP',
  'SIGSYS',
]);
/** The shell's number for SIGABRT; Node exits with it on some systems. */
const abortedCode = 134;

/** A program that does one job in a process of its own, by `serveJob`. */
export interface JobProgram {
  /** The file of the program. */
  readonly entry: string;
  /** What the program needs to open its connections and connectors. Passed unchanged. */
  readonly setup: unknown;
  /** The limit of the whole process. */
  readonly memoryMib: number;
}

/** The heap's share of the process's memory; a job's data is outside the heap. */
const heapShare = 0.5;

/** Does a job in a process of its own. @param silentMs after which a process that does not respond is ended */
export function runChild<Report>(
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
export function watchChild<Report>(
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
        if (bytes > limits.memoryBytes) kill(overMemory(limits));
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

function overMemory({ memoryBytes }: ChildLimits): Death {
  return { certain: true, how: `it needed more than ${memoryBytes / 1024 ** 2} MiB of memory` };
}

/** 0 if this system does not say; the heap limit applies there too. */
async function residentBytes(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
}
