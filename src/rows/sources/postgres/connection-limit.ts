export class ConnectionLimit {
  readonly #most: number;
  #open = 0;
  #waiting: (() => void)[] = [];

  constructor(most: number) {
    this.#most = most;
  }

  /** @returns a function to call once the connection is closed @throws the signal's reason if it aborts */
  async enter(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#open < this.#most) this.#open += 1;
    else await this.#wait(signal);
    let inside = true;
    return () => {
      if (!inside) return;
      inside = false;
      const next = this.#waiting.shift();
      if (next) next();
      else this.#open -= 1;
    };
  }

  #wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const admit = () => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      const leave = () => {
        this.#waiting = this.#waiting.filter((other) => other !== admit);
        reject(signal.reason);
      };
      this.#waiting.push(admit);
      signal.addEventListener('abort', leave, { once: true });
    });
  }
}
