import { readFile } from 'node:fs/promises';

/** Use that is so old counts half. */
const halfLifeMs = 30_000;
/** An organization may use so many times as much as the others. */
const usualTimes = 2;
/** Nor does one that uses less than one in so many parts of everything. */
const leastPart = 8;
const forgetEveryMs = 1_000;

interface Use {
  /** Time of processors. */
  cpuMs: number;
  /** Time in which runs were executed, counted for each run. */
  runMs: number;
  at: number;
}

const nothing: Use = { cpuMs: 0, runMs: 0, at: 0 };

/**
 * The recent use of each organization, as far as this process can know it. The processor time of the process is
 * divided equally among the runs that it executed meanwhile. What a run makes a source compute is not known, so
 * the time in which runs are executed counts as well.
 */
export class CpuUse {
  readonly #cpuMs: () => number;
  readonly #now: () => number;
  readonly #executing = new Map<string, number>();
  readonly #used = new Map<string, Use>();
  #forgotAt = Number.NEGATIVE_INFINITY;
  #counted: { readonly cpuMs: number; readonly at: number };

  /**
   * @param cpuMs processor time that this process has used, in ms
   * @param now a clock in ms that never goes back
   */
  constructor(cpuMs: () => number, now: () => number) {
    this.#cpuMs = cpuMs;
    this.#now = now;
    this.#counted = { cpuMs: cpuMs(), at: now() };
  }

  /** A run is being executed. @returns call it at its end */
  begin(organizationId: string): () => void {
    this.#count();
    this.#add(organizationId, 1);
    return () => {
      this.#count();
      this.#add(organizationId, -1);
    };
  }

  /**
   * Says whether the organization used at least an eighth of everything, and more than twice as much as the others on
   * average, both of processors and of time. One whose runs wait for a slow store used time only.
   *
   * Of many organizations with equal work half are above the mean at any moment. None of them keeps others waiting.
   *
   * @param others the other organizations that count
   */
  isTooMuch(organizationId: string, others: readonly string[]): boolean {
    if (others.length === 0) return false;
    this.#count();
    const own = this.#usedBy(organizationId);
    const used = others.map((id) => this.#usedBy(id));
    return (['cpuMs', 'runMs'] as const).every((what) => {
      const ofOthers = used.reduce((sum, of) => sum + of[what], 0);
      const isMost = own[what] * others.length > usualTimes * ofOthers;
      return isMost && own[what] * leastPart >= own[what] + ofOthers;
    });
  }

  #add(organizationId: string, change: 1 | -1): void {
    const count = (this.#executing.get(organizationId) ?? 0) + change;
    if (count > 0) this.#executing.set(organizationId, count);
    else this.#executing.delete(organizationId);
  }

  #count(): void {
    const before = this.#counted;
    const at = this.#now();
    this.#counted = { cpuMs: this.#cpuMs(), at };
    const cpuMs = this.#counted.cpuMs - before.cpuMs;
    const runs = [...this.#executing.values()].reduce((sum, count) => sum + count, 0);
    for (const [id, count] of this.#executing) {
      const used = this.#usedBy(id);
      this.#used.set(id, {
        cpuMs: used.cpuMs + (cpuMs * count) / runs,
        runMs: used.runMs + (at - before.at) * count,
        at,
      });
    }
    if (at - this.#forgotAt < forgetEveryMs) return;
    this.#forgotAt = at;
    for (const id of this.#used.keys()) if (this.#usedBy(id).runMs < 1) this.#used.delete(id);
  }

  #usedBy(organizationId: string): Use {
    const { cpuMs, runMs, at } = this.#used.get(organizationId) ?? nothing;
    const remainingShare = 0.5 ** ((this.#now() - at) / halfLifeMs);
    return { cpuMs: cpuMs * remainingShare, runMs: runMs * remainingShare, at: this.#now() };
  }
}

/** Minimum time between two readings: each takes a tenth of the time of a small run. */
const readEveryMs = 20;
let read = { cpuMs: 0, at: Number.NEGATIVE_INFINITY };

/** Processor time that this process has used, in all its threads, in ms; up to `readEveryMs` ago. */
export function processCpuMs(): number {
  const at = performance.now();
  if (at - read.at >= readEveryMs) {
    const { user, system } = process.cpuUsage();
    read = { cpuMs: (user + system) / 1_000, at };
  }
  return read.cpuMs;
}

/** Above this share of time in which a task waited for a processor, they have too much to do. */
const pressedShare = 0.25;
/** It counts so long afterwards: what relieved the processors must not come back at once. */
const relievedMs = 30_000;
/** Rests begin as long as the work before them, and become this many times as long. */
const longestRest = 8;
/** In each second that was not pressed, rests become shorter by this factor. */
const relief = 0.8;
const everyMs = 1_000;

/** The control group's own file is better: it also counts the time that a limit took away. */
const files = ['/sys/fs/cgroup/cpu.pressure', '/proc/pressure/cpu'];

/** Says whether the processors have too much to do, by the measure of Linux. On other systems they never have. */
export class CpuPressure {
  readonly #timer: NodeJS.Timeout;
  readonly #now: () => number;
  readonly #read: () => Promise<number | null>;
  #last: { readonly stalledMs: number; readonly at: number } | null = null;
  #pressedAt = Number.NEGATIVE_INFINITY;
  #rest = 1;

  /**
   * @param now a clock in ms that never goes back
   * @param read for how long tasks have waited since the start, in ms; null if it is not known
   */
  constructor(now = () => performance.now(), read = readStalledMs) {
    this.#now = now;
    this.#read = read;
    this.#timer = setInterval(() => void this.look(), everyMs).unref();
  }

  isPressed(): boolean {
    return this.#now() - this.#pressedAt < relievedMs;
  }

  /** The ratio of rest to work for an organization that leaves room. It doubles each second that is too busy, and falls slowly. */
  get rest(): number {
    return this.#rest;
  }

  /** One measurement, since the one before. */
  async look(): Promise<void> {
    const stalledMs = await this.#read();
    const at = this.#now();
    const last = this.#last;
    this.#last = stalledMs === null ? null : { stalledMs, at };
    if (stalledMs === null || last === null || at <= last.at) return;
    const isPressed = (stalledMs - last.stalledMs) / (at - last.at) > pressedShare;
    if (isPressed) this.#pressedAt = at;
    this.#rest = isPressed
      ? Math.min(this.#rest * 2, longestRest)
      : Math.max(this.#rest * relief, 1);
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

async function readStalledMs(): Promise<number | null> {
  for (const file of files) {
    const text = await readFile(file, 'utf8').catch(() => '');
    const match = /^some .*total=(\d+)/m.exec(text);
    if (match) return Number(match[1]) / 1_000;
  }
  return null;
}
