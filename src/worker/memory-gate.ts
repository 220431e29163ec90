interface Waiting {
  readonly bytes: number;
  readonly admit: (leave: (() => void) | null) => void;
}

interface Growing {
  readonly bytes: number;
  readonly admit: (giveBack: () => void) => void;
}

/**
 * Admits runs while their memory fits into the worker's limit, in order of arrival, so that small runs
 * cannot hold up a large one forever. A run that needs more than the limit runs alone. A run inside that
 * meets a large row waits for more memory; it comes before the runs that wait outside.
 */
export class MemoryGate {
  readonly #totalBytes: number;
  readonly #waiting: Waiting[] = [];
  #growing: Growing[] = [];
  #runs = 0;
  #usedBytes = 0;
  #closed = false;

  constructor(totalBytes: number) {
    this.#totalBytes = totalBytes;
  }

  /** What all runs inside may need together. */
  get totalBytes(): number {
    return this.#totalBytes;
  }

  /** Bytes that the runs inside may need. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** @returns a function to call when the run has ended; null if the gate was closed meanwhile */
  enter(bytes: number): Promise<(() => void) | null> {
    return new Promise((admit) => {
      this.#waiting.push({ bytes, admit });
      this.#admit();
    });
  }

  /**
   * More memory for a run inside. If all runs inside wait for more, the first gets it, even if it does not
   * fit: none of them holds what it waits for.
   *
   * @returns a function to call when the memory is free again
   * @throws the signal's reason if it aborts
   */
  grow(bytes: number, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#growing = this.#growing.filter((other) => other !== growing);
        reject(signal.reason);
        this.#admit();
      };
      const admit = (giveBack: () => void) => {
        signal.removeEventListener('abort', leave);
        resolve(giveBack);
      };
      const growing: Growing = { bytes, admit };
      this.#growing.push(growing);
      signal.addEventListener('abort', leave, { once: true });
      this.#admit();
    });
  }

  /** Refuses runs that wait or come later; admitted runs continue. */
  close(): void {
    this.#closed = true;
    this.#admit();
  }

  #admit(): void {
    for (let next = this.#growing[0]; next !== undefined; next = this.#growing[0]) {
      const fits = this.#usedBytes + next.bytes <= this.#totalBytes;
      if (!fits && this.#growing.length < this.#runs) break;
      this.#growing.shift();
      next.admit(this.#take(next.bytes, 0));
      if (!fits) break;
    }
    if (this.#growing.length > 0 && !this.#closed) return;
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const fits = this.#usedBytes === 0 || this.#usedBytes + next.bytes <= this.#totalBytes;
      if (!this.#closed && !fits) return;
      this.#waiting.shift();
      next.admit(this.#closed ? null : this.#take(next.bytes, 1));
    }
  }

  #take(bytes: number, runs: 0 | 1): () => void {
    this.#usedBytes += bytes;
    this.#runs += runs;
    let inside = true;
    return () => {
      if (!inside) return;
      inside = false;
      this.#usedBytes -= bytes;
      this.#runs -= runs;
      this.#admit();
    };
  }
}
