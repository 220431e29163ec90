import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll } from 'vitest';
import { until } from './until.ts';

/** The repository's folder. */
export const projectRoot = fileURLToPath(new URL('../..', import.meta.url));

/** Of `dist`: the bundle of its programs. */
export const bundleFolder = path.join(projectRoot, 'dist/bundle');

/** Arm what the environment's FAILPOINTS asks for: in the modules of the build, or of the bundle. */
const failpointActions = {
  build: path.join(projectRoot, 'test/support/failpoints/actions.mjs'),
  bundle: path.join(bundleFolder, 'failpoints.js'),
};

export interface ProcessExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface ProcessOptions {
  /** Over this process's own environment; undefined takes a variable away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
}

/** A real process of ours under test. */
export interface TestProcess {
  readonly pid: number;
  /** All of standard output and standard error so far, as they came. */
  output(): string;
  /** The first line on standard output that matches; fails with the output if the process ends first. */
  waitForLine(pattern: RegExp, timeoutMs?: number): Promise<string>;
  kill(signal?: NodeJS.Signals): void;
  hasExited(): boolean;
  /** Fails, with the output, if the process does not end in time (default 60 s). */
  waitForExit(timeoutMs?: number): Promise<ProcessExit>;
}

const running = new Set<ChildProcess>();
/** Process groups of everything started: a child may outlive the process that we started. */
const groups = new Set<number>();
/** How long after its end a process's output may still arrive. */
const lastOutputMs = 300;

/** Processes that a test file leaves behind end with the file, or with this worker at the latest. */
export async function endLeftovers(): Promise<void> {
  reap();
  await until(() => running.size === 0, { message: 'the processes of this file have ended' });
}
afterAll(endLeftovers);
process.once('exit', reap);

function reap(): void {
  for (const group of groups) {
    try {
      process.kill(-group, 'SIGKILL');
    } catch {
      // No process of it is left.
    }
  }
  groups.clear();
}

/** Starts a program of the build: `startSluice('main/worker.js')`. The run's setup has built it. */
export function startSluice(
  entry: string,
  args: readonly string[] = [],
  options: ProcessOptions = {},
): TestProcess {
  const file = path.join(projectRoot, 'dist', entry);
  return startProgram(file, failpointActions.build, args, options);
}

/** As startSluice, from the bundle, which starts faster and has fewer programs (`write-bundle.mjs`). */
export function startBundled(
  entry: string,
  args: readonly string[] = [],
  options: ProcessOptions = {},
): TestProcess {
  const file = path.join(bundleFolder, entry);
  return startProgram(file, failpointActions.bundle, args, options);
}

/** @param actions a module that shares its modules with the program */
function startProgram(
  file: string,
  actions: string,
  args: readonly string[],
  options: ProcessOptions,
): TestProcess {
  if (!existsSync(file)) throw new Error(`The build has no ${path.relative(projectRoot, file)}.`);
  const breaks =
    options.env?.FAILPOINTS === undefined ? [] : ['--import', pathToFileURL(actions).href];
  return startProcess(process.execPath, [...breaks, file, ...args], options);
}

/** Starts any program. It dies with the test file at the latest. */
export function startProcess(
  program: string,
  args: readonly string[],
  options: ProcessOptions = {},
): TestProcess {
  const child = spawn(program, args, {
    cwd: options.cwd ?? projectRoot,
    env: { ...process.env, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  if (child.pid === undefined) {
    child.once('error', () => {});
    throw new Error(`${program} cannot be started.`);
  }
  endWithFile(child);
  return observe(child, child.pid);
}

/** Kills a process and those of its group at the end of the test file, if they still run then. */
export function endWithFile(child: ChildProcess): void {
  if (child.pid === undefined || child.exitCode !== null) return;
  running.add(child);
  groups.add(child.pid);
  child.once('exit', () => running.delete(child));
}

function observe(child: ChildProcess, pid: number): TestProcess {
  let output = '';
  let standardOutput = '';
  let exit: ProcessExit | null = null;
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    standardOutput += text;
    output += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  const settle = (code: number | null, signal: NodeJS.Signals | null) => {
    exit ??= { code, signal };
  };
  // `close` comes after the last byte of output, but not while a grandchild holds the pipe open.
  child.once('close', settle);
  child.once('exit', (code, signal) => setTimeout(settle, lastOutputMs, code, signal));
  const describeOutput = (error: unknown): never => {
    throw new Error(
      `${(error as Error).message}\nThe last output of process ${pid}:\n${output.slice(-4_000)}`,
    );
  };
  return {
    pid,
    output: () => output,
    kill: (signal = 'SIGTERM') => void child.kill(signal),
    hasExited: () => exit !== null,
    async waitForLine(pattern, timeoutMs = 60_000) {
      const findLine = () =>
        standardOutput
          .split('\n')
          .slice(0, -1)
          .find((line) => pattern.test(line));
      await until(() => findLine() !== undefined || exit !== null, {
        timeoutMs,
        message: `a line matches ${pattern}`,
      }).catch(describeOutput);
      return findLine() ?? describeOutput(new Error(`It ended before a line matched ${pattern}.`));
    },
    waitForExit: (timeoutMs = 60_000) =>
      until(() => exit, { timeoutMs, message: `process ${pid} ends` }).catch(describeOutput),
  };
}

/** The kernel's record of the most memory that a process had; null if the process is gone. */
export function peakMib(pid: number | undefined): number | null {
  try {
    const peak = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return peak === undefined ? null : Number(peak) / 1024;
  } catch {
    return null;
  }
}
