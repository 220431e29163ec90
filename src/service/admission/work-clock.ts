/** Measures how long a worker works for each project. Time counts while it passes, not at its end. */
export class WorkClock {
  readonly #now: () => number;
  readonly #underWay = new Map<symbol, { readonly teamId: number; since: number }>();
  #spent = new Map<number, number>();

  /** @param now a clock in ms that never goes back */
  constructor(now = () => performance.now()) {
    this.#now = now;
  }

  /** @returns call it at the end */
  begin(teamId: number): () => void {
    const work = Symbol('work');
    this.#underWay.set(work, { teamId, since: this.#now() });
    return () => {
      const own = this.#underWay.get(work);
      if (own) this.#count(own);
      this.#underWay.delete(work);
    };
  }

  #count(own: { readonly teamId: number; since: number }): void {
    const now = this.#now();
    const seconds = (now - own.since) / 1_000;
    own.since = now;
    this.#spent.set(own.teamId, (this.#spent.get(own.teamId) ?? 0) + seconds);
  }

  /** Seconds by project since the last call. */
  take(): ReadonlyMap<number, number> {
    for (const own of this.#underWay.values()) this.#count(own);
    const spent = this.#spent;
    this.#spent = new Map();
    return spent;
  }

  /** Counts again what could not be stored. */
  giveBack(spent: ReadonlyMap<number, number>): void {
    for (const [teamId, seconds] of spent) {
      this.#spent.set(teamId, (this.#spent.get(teamId) ?? 0) + seconds);
    }
  }
}
