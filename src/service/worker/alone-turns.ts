/**
 * Lets one run at a time have a process of its own. The process may use as much memory as the worker, and many that start at once
 * would take the time in which the worker renews its leases. A run that finds it taken is not claimed: it would hold a slot.
 */
export class AloneTurns {
  #isTaken = false;

  /** @returns a function to call when the process has ended; null if another run has one */
  enter(): (() => void) | null {
    if (this.#isTaken) return null;
    this.#isTaken = true;
    return () => {
      this.#isTaken = false;
    };
  }
}
