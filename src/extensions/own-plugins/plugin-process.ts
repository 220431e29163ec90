import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import type { Answer, Request } from './child/main.ts';
import { processMemoryMib, SandboxError, type SandboxLimits } from './limits.ts';

/** `rowMs`: between two reports of progress. */
interface Patience {
  readonly wholeMs: number;
  readonly rowMs: number;
}

interface Pending {
  readonly resolve: (text: string) => void;
  readonly reject: (error: SandboxError) => void;
  readonly patience: Patience;
  /** Processor times at the start and at the last progress; -1: not read yet. */
  startCpuMs: number;
  rowCpuMs: number;
  startedAt: number;
  progressedAt: number;
}

const lookEveryMs = 100;
/** A process that waits for a processor is not slow by itself; but nothing waits forever. */
const patienceMs = 60_000;
const patienceFactor = 20;
const stderrChars = 8_192;

/**
 * A Node without environment, files, network, children and code from text. It answers requests one at a time, in order;
 * the next may be on its way. After an error it has ended.
 */
export class PluginProcess {
  readonly #child: ChildProcess;
  readonly #limits: SandboxLimits;
  /** The first is the one it works on. */
  readonly #pending: Pending[] = [];
  #ended: SandboxError | null = null;
  #received: Buffer[] = [];
  #receivedBytes = 0;
  #stderr = '';
  #extendedAtMs = 0;
  readonly #looking: NodeJS.Timeout;
  readonly #exited: Promise<void>;

  private constructor(child: ChildProcess, limits: SandboxLimits) {
    this.#child = child;
    this.#limits = limits;
    this.#looking = setInterval(() => void this.#look(), lookEveryMs).unref();
    this.#exited = new Promise((resolve) => {
      child.once('close', (code, signal) => {
        this.#end(this.#describeEnd(code, signal));
        resolve();
      });
    });
    child.once('error', (error) => {
      this.#end(new SandboxError('unavailable', 'its sandbox cannot start.', { cause: error }));
    });
    child.stdin?.on('error', () => {});
    child.stdout?.on('data', (bytes: Buffer) => this.#receive(bytes));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-stderrChars);
    });
  }

  static start(child: string, limits: SandboxLimits): PluginProcess {
    const process_ = spawn(process.execPath, [...nodeFlags(limits), '-e', child], {
      env: { TZ: 'UTC' },
      cwd: '/',
      // Ctrl-C in a terminal is for the worker, which ends its runs in good order.
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
      windowsHide: true,
    });
    return new PluginProcess(process_, limits);
  }

  async confine(): Promise<boolean> {
    const { pid } = this.#child;
    return pid !== undefined && (await confine(pid, this.#limits.memoryMib));
  }

  get isBusy(): boolean {
    return this.#pending.length > 0;
  }

  /** @throws SandboxError if a limit is exceeded or the process ends; all later calls throw it too */
  ask(request: Request, body: string | Buffer, patience: Patience): Promise<string> {
    if (this.#ended) return Promise.reject(this.#ended);
    return new Promise((resolve, reject) => {
      const at = performance.now();
      const times = { startCpuMs: -1, rowCpuMs: -1, startedAt: at, progressedAt: at };
      this.#pending.push({ resolve, reject, patience, ...times });
      const head = Buffer.allocUnsafe(5);
      head.writeUInt32LE(Buffer.byteLength(body), 0);
      head.write(request, 4, 1);
      this.#child.stdin?.write(head);
      this.#child.stdin?.write(body);
    });
  }

  async kill(): Promise<void> {
    this.#end(new SandboxError('unavailable', 'its sandbox is closed.'));
    await this.#exited;
  }

  #receive(bytes: Buffer): void {
    if (this.#ended) return;
    this.#received.push(bytes);
    this.#receivedBytes += bytes.length;
    // Characters take up to three bytes.
    if (this.#receivedBytes > 3 * this.#limits.maxAnswerChars + 1024 ** 2) {
      this.#end(new SandboxError('output', this.#describeOutput()));
      return;
    }
    for (let frame = this.#takeFrame(); frame; frame = this.#takeFrame()) {
      this.#handle(frame.kind, frame.text);
    }
  }

  #takeFrame(): { kind: string; text: string } | null {
    if (this.#receivedBytes < 5) return null;
    let [first = Buffer.alloc(0)] = this.#received;
    if (first.length < 5) first = this.#join();
    const length = first.readUInt32LE(0);
    if (this.#receivedBytes < length + 5) return null;
    const all = this.#join();
    const text = all.toString('utf8', 5, length + 5);
    this.#received = [all.subarray(length + 5)];
    this.#receivedBytes -= length + 5;
    return { kind: all.toString('latin1', 4, 5), text };
  }

  #join(): Buffer {
    const all = this.#received.length === 1 ? this.#received[0] : Buffer.concat(this.#received);
    this.#received = [all ?? Buffer.alloc(0)];
    return this.#received[0] ?? Buffer.alloc(0);
  }

  #handle(letter: string, text: string): void {
    const [pending] = this.#pending;
    const kind = answers[letter];
    if (!pending || !kind) {
      this.#end(new SandboxError('crashed', 'its sandbox sent what it was not asked for.'));
    } else if (kind === 'answer') {
      this.#pending.shift();
      this.#beginNext();
      pending.resolve(text);
    } else if (kind === 'progress') {
      pending.progressedAt = performance.now();
      pending.rowCpuMs = -1;
    } else {
      this.#end(
        text === 'output'
          ? new SandboxError('output', this.#describeOutput())
          : new SandboxError('time', describeRowTime(this.#limits.rowMs)),
      );
    }
  }

  /** Its time counts from now on: until now the process worked on the one before. */
  #beginNext(): void {
    const [next] = this.#pending;
    if (!next) return;
    next.startedAt = performance.now();
    next.progressedAt = next.startedAt;
  }

  async #look(): Promise<void> {
    const { pid } = this.#child;
    if (pid === undefined || this.#ended) return;
    const cpuMs = readCpuMs(pid);
    if ((readBytes(pid, 'VmRSS') ?? 0) > processMemoryMib(this.#limits) * 1024 ** 2) {
      this.#end(new SandboxError('memory', this.#describeMemory()));
    }
    if (cpuMs !== null && cpuMs - this.#extendedAtMs > (orphanSeconds * 1_000) / 2) {
      this.#extendedAtMs = cpuMs;
      await setLimits(pid, [`--cpu=${Math.ceil(cpuMs / 1_000) + orphanSeconds}:`]);
    }
    const [pending] = this.#pending;
    if (pending) this.#judgeTime(pending, cpuMs);
  }

  #judgeTime(pending: Pending, cpuMs: number | null): void {
    const { wholeMs, rowMs } = pending.patience;
    const at = performance.now();
    if (pending.startCpuMs < 0) pending.startCpuMs = cpuMs ?? 0;
    if (pending.rowCpuMs < 0) pending.rowCpuMs = cpuMs ?? 0;
    const judge = (limitMs: number, sinceCpuMs: number, since: number, message: string) => {
      const wallMs = at - since;
      const usedMs = cpuMs === null ? wallMs : cpuMs - sinceCpuMs;
      if (wallMs > limitMs && usedMs > limitMs) this.#end(new SandboxError('time', message));
      if (wallMs > patienceMs + limitMs * patienceFactor) {
        this.#end(new SandboxError('unavailable', 'its sandbox got no time on a processor.'));
      }
    };
    const { startCpuMs, startedAt, rowCpuMs, progressedAt } = pending;
    const whole = `it took more than ${wholeMs} ms for a batch of rows. Do less for each row.`;
    judge(wholeMs, startCpuMs, startedAt, whole);
    judge(rowMs, rowCpuMs, progressedAt, describeRowTime(rowMs));
  }

  #end(error: SandboxError): void {
    if (this.#ended) return;
    this.#ended = error;
    clearInterval(this.#looking);
    this.#received = [];
    this.#child.kill('SIGKILL');
    for (const { reject } of this.#pending.splice(0)) reject(error);
  }

  #describeEnd(code: number | null, signal: NodeJS.Signals | null): SandboxError {
    const isAbort = signal === 'SIGABRT' || signal === 'SIGTRAP' || signal === 'SIGILL';
    if (/out of memory|allocation failed/i.test(this.#stderr) && (isAbort || code === 134)) {
      return new SandboxError('memory', this.#describeMemory());
    }
    // Only something outside sends these: an operator, or the machine out of memory.
    if (signal && outsideSignals.includes(signal)) {
      return new SandboxError('unavailable', `its sandbox was ended by ${signal}.`);
    }
    const cause = new Error(this.#stderr);
    return new SandboxError('crashed', `its sandbox crashed (${signal ?? code}).`, { cause });
  }

  #describeMemory(): string {
    return `it needed more than ${this.#limits.memoryMib} MiB of memory. Keep less in memory for a row.`;
  }

  #describeOutput(): string {
    return `it changed a batch of rows to more than ${this.#limits.maxAnswerChars} characters. Return less.`;
  }
}

const outsideSignals: readonly NodeJS.Signals[] = ['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP'];

const answers: Readonly<Record<string, Answer>> = { a: 'answer', p: 'progress', l: 'limit' };

function describeRowTime(rowMs: number): string {
  return `it took more than ${rowMs} ms for a row. Do less for each row.`;
}

/** The folder of packages that has the parsers. Public code: to read it gives nothing away. */
export function parsersFolder(): string {
  const entry = createRequire(import.meta.url).resolve('acorn');
  const marker = `${path.sep}node_modules${path.sep}`;
  return entry.slice(0, entry.lastIndexOf(marker) + marker.length);
}

/** @internal for the test of what is left to a program under them */
export function nodeFlags(limits: SandboxLimits): string[] {
  const { allowedNodeEnvironmentFlags: known } = process;
  return [
    known.has('--permission') ? '--permission' : '--experimental-permission',
    `--allow-fs-read=${parsersFolder()}*`,
    '--frozen-intrinsics',
    '--disallow-code-generation-from-strings',
    '--disable-proto=delete',
    '--unhandled-rejections=none',
    '--no-addons',
    '--no-warnings',
    '--no-deprecation',
    '--no-global-search-paths',
    // Most faults of the engine that led out of it were in its optimising compilers.
    '--no-opt',
    '--no-maglev',
    `--max-old-space-size=${limits.memoryMib}`,
    '--max-semi-space-size=4',
    // Rows are garbage at once: to collect them in several threads costs more than it saves.
    '--single-threaded-gc',
  ];
}

/** For what Node takes outside the heap of the plugin. */
const spareMib = 64;
/** Seconds of processor time that a process has left if its parent dies. */
const orphanSeconds = 120;
/** The niceness of a sandbox above its parent's: of a busy core it gets about a thirtieth of the parent's time. */
const niceness = 15;

/**
 * New files, sockets and threads, core dumps, and more memory than this beyond what it has. Native code cannot undo it.
 * @returns whether the system could do it: not on macOS, and not without util-linux
 */
export async function confine(pid: number, memoryMib: number): Promise<boolean> {
  // If the machine is out of memory, the kernel ends this process before the worker.
  await writeFile(`/proc/${pid}/oom_score_adj`, '1000').catch(() => {});
  yieldToParent(pid);
  const dataBytes = readBytes(pid, 'VmData');
  if (dataBytes === null) return false;
  const data = dataBytes + (memoryMib + spareMib) * 1024 ** 2;
  const limits = ['--nofile=0:0', '--nproc=0:0', '--core=0:0', `--data=${data}:${data}`];
  return setLimits(pid, [...limits, `--cpu=${orphanSeconds}:`]);
}

/** It must not slow down others. Limits count processor time, so a busy machine does not make a plugin fail. */
function yieldToParent(pid: number): void {
  try {
    os.setPriority(pid, Math.min(os.getPriority() + niceness, os.constants.priority.PRIORITY_LOW));
  } catch {
    // The process has ended.
  }
}

/** Null if the system does not say. */
function readCpuMs(pid: number): number | null {
  const text = readProcess(pid, 'stat');
  // The name of the program, in brackets, may hold blanks.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  return Number.isFinite(ticks) ? ticks * 10 : null;
}

/** The kernel answers from memory: a thread of the pool would take a hundred times as long. */
function readProcess(pid: number, file: 'stat' | 'status'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}

/** Resident memory, or that of data; null if the system does not say. */
function readBytes(pid: number, field: 'VmRSS' | 'VmData'): number | null {
  const kib = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(readProcess(pid, 'status'))?.[1];
  return kib === undefined ? null : Number(kib) * 1024;
}

function setLimits(pid: number, limits: readonly string[]): Promise<boolean> {
  return new Promise((resolve) => {
    execFile('prlimit', ['--pid', String(pid), ...limits], (error) => resolve(!error));
  });
}
