/**
 * Slots of small runs, which outlive the job that brought them. A run that takes long holds its own slot only, and no other
 * run of its job.
 */
export class SmallSlots {
  readonly count: number;
  #free: number;
  readonly #waiting: (() => void)[] = [];
  readonly #running = new Set<Promise<void>>();

  /** @param count maximum runs at a time */
  constructor(count: number) {
    this.count = count;
    this.#free = count;
  }

  /**
   * Waits for a slot, then begins the run.
   *
   * @param run never rejects
   */
  async begin(run: () => Promise<void>): Promise<void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    const running = run().finally(() => {
      this.#running.delete(running);
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    });
    this.#running.add(running);
  }

  /** Whether the next slot that is free is taken at once. */
  get hasNext(): boolean {
    return this.#waiting.length > 0;
  }

  /** Resolves once no run is in progress. */
  async ended(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}

/**
 * How many small runs a job brings. Each worker gets its part of them, and none gets more than it can execute at once.
 *
 * @param runs that are enqueued now
 * @param slots of this worker; the others are expected to have as many
 * @param allSlots of all workers
 */
export function runsPerJob(runs: number, slots: number, allSlots: number): number {
  const workers = Math.max(1, Math.round(allSlots / Math.max(1, slots)));
  return Math.max(1, Math.min(slots, Math.ceil(runs / workers)));
}
