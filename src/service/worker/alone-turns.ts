/**
 * Lets runs with a process of their own go one after the other. Each may use as much memory as the worker, and many processes
 * that start at once would take the time in which the worker renews its leases.
 */
export class AloneTurns {
  #last: Promise<void> = Promise.resolve();

  /** @returns null if the signal was aborted before its turn */
  async do<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T | null> {
    const before = this.#last;
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    // Who gives up does not let the next one pass those before.
    this.#last = before.then(() => ended);
    try {
      await untilAborted(before, signal);
      return signal.aborted ? null : await work();
    } finally {
      end();
    }
  }
}

function untilAborted(before: Promise<void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const leave = () => resolve();
    signal.addEventListener('abort', leave, { once: true });
    void before.then(() => {
      signal.removeEventListener('abort', leave);
      resolve();
    });
  });
}
