interface Waiting {
  readonly bytes: number;
  readonly admit: (leave: (() => void) | null) => void;
}

interface WaitingSmall {
  readonly bytes: number;
  readonly admit: (place: SmallPlace | null) => void;
}

interface Growing {
  readonly bytes: number;
  readonly admit: (giveBack: () => void) => void;
}

/** A small run inside. */
export interface SmallPlace {
  /** Call it when the run has ended. */
  leave(): void;
  /** Takes so much memory instead, as a large run, if it is free now. @returns whether it was */
  outgrow(bytes: number): boolean;
}

/** Who holds memory. What a run takes in addition counts as that of large ones. */
type Holder = 'large' | 'small' | 'growth';

/**
 * Admits runs while their memory fits into the worker's limit. Large runs enter in order of arrival, so that none
 * waits forever. A run that needs more than the limit runs alone. Small runs do not wait for large ones: a share of the
 * memory is theirs, and they use what else is free while no large run waits for it. A run inside that
 * meets a large row waits for more memory; it comes before the runs that wait outside.
 */
export class MemoryGate {
  readonly #totalBytes: number;
  readonly #smallShareBytes: number;
  readonly #slots: number;
  readonly #waiting: Waiting[] = [];
  readonly #waitingSmall: WaitingSmall[] = [];
  #growing: Growing[] = [];
  readonly #runs = { large: 0, small: 0 };
  readonly #used = { large: 0, small: 0, growth: 0 };
  #closed = false;

  /**
   * @param smallShareBytes of the total, what only small runs may use; but a run that needs it too gets it
   * @param slots with so many large runs inside, no small one becomes large
   */
  constructor(totalBytes: number, smallShareBytes = 0, slots = Number.POSITIVE_INFINITY) {
    this.#totalBytes = totalBytes;
    this.#smallShareBytes = smallShareBytes;
    this.#slots = slots;
  }

  /** What all runs inside may need together. */
  get totalBytes(): number {
    return this.#totalBytes;
  }

  /** Bytes that the runs inside may need. */
  get usedBytes(): number {
    return this.#usedByLarge + this.#used.small;
  }

  get #usedByLarge(): number {
    return this.#used.large + this.#used.growth;
  }

  /** @returns a function to call when the run has ended; null if the gate was closed meanwhile */
  enter(bytes: number): Promise<(() => void) | null> {
    return new Promise((admit) => {
      this.#waiting.push({ bytes, admit });
      this.#admit();
    });
  }

  /** The same for a run that is expected to be small. */
  enterSmall(bytes: number): Promise<SmallPlace | null> {
    return new Promise((admit) => {
      this.#waitingSmall.push({ bytes, admit });
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
      const fits = this.usedBytes + next.bytes <= this.#totalBytes;
      if (!fits && this.#growing.length < this.#runs.large + this.#runs.small) break;
      this.#growing.shift();
      next.admit(this.#take(next.bytes, 'growth'));
      if (!fits) break;
    }
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (!this.#closed && !this.#hasRoom(next.bytes)) break;
      this.#waiting.shift();
      next.admit(this.#closed ? null : this.#take(next.bytes, 'large'));
    }
    for (let next = this.#waitingSmall[0]; next !== undefined; next = this.#waitingSmall[0]) {
      if (!this.#closed && !this.#hasRoomForSmall(next.bytes)) break;
      this.#waitingSmall.shift();
      next.admit(this.#closed ? null : this.#placeOf(next.bytes));
    }
  }

  /** Whether a large run may enter now. */
  #hasRoom(bytes: number): boolean {
    if (this.#growing.length > 0) return false;
    if (this.usedBytes === 0) return true;
    if (this.usedBytes + bytes > this.#totalBytes) return false;
    const ordinary = this.#totalBytes - this.#smallShareBytes;
    return this.#usedByLarge + bytes <= ordinary || this.#runs.large === 0;
  }

  /** What waits must not wait forever while small runs come and go: then they keep to their share. */
  #hasRoomForSmall(bytes: number): boolean {
    const free = this.#totalBytes - this.usedBytes - bytes;
    if (free < 0) return this.usedBytes === 0 && this.#waiting.length === 0;
    const needed = this.#growing[0]?.bytes ?? this.#waiting[0]?.bytes ?? 0;
    if (needed <= free) return true;
    // The large runs inside that do not wait will leave.
    const isNext = this.#growing.length >= this.#runs.large;
    const left = this.#totalBytes - this.#usedByLarge - needed;
    const share = isNext ? Math.min(this.#smallShareBytes, left) : this.#smallShareBytes;
    return this.#used.small + bytes <= share;
  }

  #placeOf(bytes: number): SmallPlace {
    let leave = this.#take(bytes, 'small');
    let isSmall = true;
    return {
      leave: () => leave(),
      outgrow: (more) => {
        if (!isSmall) return true;
        this.#used.small -= bytes;
        const hasSlot = this.#runs.large < this.#slots && this.#waiting.length === 0;
        const fits = !this.#closed && hasSlot && this.#hasRoom(more);
        this.#used.small += bytes;
        if (!fits) return false;
        isSmall = false;
        const large = this.#take(more, 'large');
        leave();
        leave = large;
        return true;
      },
    };
  }

  #take(bytes: number, holder: Holder): () => void {
    this.#used[holder] += bytes;
    if (holder !== 'growth') this.#runs[holder] += 1;
    let inside = true;
    return () => {
      if (!inside) return;
      inside = false;
      this.#used[holder] -= bytes;
      if (holder !== 'growth') this.#runs[holder] -= 1;
      this.#admit();
    };
  }
}
