interface Waiting {
  readonly bytes: number;
  readonly admit: (leave: (() => void) | null) => void;
}

/**
 * Admits runs while their memory fits into the worker's limit, in order of arrival, so that small runs
 * cannot hold up a large one forever. A run that needs more than the limit runs alone.
 */
export class MemoryGate {
  readonly #totalBytes: number;
  readonly #waiting: Waiting[] = [];
  #usedBytes = 0;
  #closed = false;

  constructor(totalBytes: number) {
    this.#totalBytes = totalBytes;
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

  /** Refuses runs that wait or come later; admitted runs continue. */
  close(): void {
    this.#closed = true;
    this.#admit();
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const fits = this.#usedBytes === 0 || this.#usedBytes + next.bytes <= this.#totalBytes;
      if (!this.#closed && !fits) return;
      this.#waiting.shift();
      next.admit(this.#closed ? null : this.#take(next.bytes));
    }
  }

  #take(bytes: number): () => void {
    this.#usedBytes += bytes;
    let inside = true;
    return () => {
      if (!inside) return;
      inside = false;
      this.#usedBytes -= bytes;
      this.#admit();
    };
  }
}
