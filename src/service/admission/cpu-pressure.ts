import { readFile } from 'node:fs/promises';

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

/**
 * Whether the processors of this machine have too much to do, by the kernel's own measure (Linux). On other
 * systems they never have.
 */
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

  /**
   * How many times as long as its work someone who leaves room to others should rest: twice as long with each
   * second in which the processors had too much to do, and a little shorter with each other one. So
   * rests last as long as needed.
   */
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
    const found = /^some .*total=(\d+)/m.exec(text);
    if (found) return Number(found[1]) / 1_000;
  }
  return null;
}
