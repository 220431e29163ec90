/**
 * Places for runs that outlive the job which brought them. A run that takes long holds its own place only, and no other
 * run of its job.
 */
export class RunPlaces {
  readonly places: number;
  #free: number;
  readonly #waiting: (() => void)[] = [];
  readonly #running = new Set<Promise<void>>();

  /** @param places maximum runs at a time */
  constructor(places: number) {
    this.places = places;
    this.#free = places;
  }

  /**
   * Waits for a place, then begins the run.
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

  /** Whether the next place that is free is taken at once. */
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
 * @param places of this worker; the others are expected to have as many
 * @param allPlaces of all workers
 */
export function runsPerJob(runs: number, places: number, allPlaces: number): number {
  const workers = Math.max(1, Math.round(allPlaces / Math.max(1, places)));
  return Math.max(1, Math.min(places, Math.ceil(runs / workers)));
}
