import { readFile } from 'node:fs/promises';

/** Above this share of time in which a task waited for a processor, they have too much to do. */
const pressedShare = 0.25;
/** It counts so long afterwards: what relieved the processors must not come back at once. */
const relievedMs = 30_000;
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

  /** One measurement, since the one before. */
  async look(): Promise<void> {
    const stalledMs = await this.#read();
    const at = this.#now();
    const last = this.#last;
    this.#last = stalledMs === null ? null : { stalledMs, at };
    if (stalledMs === null || last === null || at <= last.at) return;
    if ((stalledMs - last.stalledMs) / (at - last.at) > pressedShare) this.#pressedAt = at;
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
