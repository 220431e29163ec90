/** Maximum exports that are kept; the oldest go first. */
const most = 1_000;
/** The time for which an export counts as slow after a slow check. */
const slowMs = 3_600_000;

/** Exports whose look-backs take longer than a turn, as this process has found. */
export class SlowExports {
  /** By id, the oldest first: until when, by `performance.now()`. */
  readonly #until = new Map<string, number>();

  list(): readonly string[] {
    for (const [id, until] of this.#until) {
      if (until < performance.now()) this.#until.delete(id);
    }
    return [...this.#until.keys()];
  }

  add(exportId: string): void {
    this.#until.delete(exportId);
    this.#until.set(exportId, performance.now() + slowMs);
    const [oldest] = this.#until.keys();
    if (this.#until.size > most && oldest !== undefined) this.#until.delete(oldest);
  }
}
