interface Needed {
  readonly bytes: number;
  readonly organizationId: string;
}

interface Waiting<Admitted> extends Needed {
  readonly admit: (admitted: Admitted | null) => void;
}

type Leave = () => void;

interface Growing {
  readonly bytes: number;
  readonly admit: (giveBack: () => void) => void;
}

export interface SmallSlot {
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
 *
 * Large runs of one organization leave memory for a run of another, except the first: a store can make them last for hours.
 */
export class MemoryGate {
  readonly #totalBytes: number;
  readonly #smallShareBytes: number;
  readonly #slots: number;
  readonly #reserveBytes: number;
  readonly #held = new Map<string, number>();
  #waiting: Waiting<Leave>[] = [];
  readonly #waitingSmall: Waiting<SmallSlot>[] = [];
  #growing: Growing[] = [];
  readonly #runs = { large: 0, small: 0 };
  readonly #used = { large: 0, small: 0, growth: 0 };
  #closed = false;

  /**
   * @param smallShareBytes of the total, what only small runs may use; but a run that needs it too gets it
   * @param slots with so many large runs inside, no small one becomes large
   * @param reserveBytes what several large runs of one organization leave to others
   */
  constructor(
    totalBytes: number,
    smallShareBytes = 0,
    slots = Number.POSITIVE_INFINITY,
    reserveBytes = 0,
  ) {
    this.#totalBytes = totalBytes;
    this.#reserveBytes = reserveBytes;
    this.#smallShareBytes = smallShareBytes;
    this.#slots = slots;
  }

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
  enter(bytes: number, organizationId: string): Promise<(() => void) | null> {
    return new Promise((admit) => {
      this.#waiting.push({ bytes, organizationId, admit });
      this.#admit();
    });
  }

  enterSmall(bytes: number, organizationId: string): Promise<SmallSlot | null> {
    return new Promise((admit) => {
      this.#waitingSmall.push({ bytes, organizationId, admit });
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
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      if (!this.#closed && !this.#hasRoom(next.bytes)) break;
      const admitted = next;
      this.#waiting = this.#waiting.filter((other) => other !== admitted);
      next.admit(this.#closed ? null : this.#takeLarge(next));
    }
    for (let next = this.#waitingSmall[0]; next !== undefined; next = this.#waitingSmall[0]) {
      if (!this.#closed && !this.#hasRoomForSmall(next.bytes)) break;
      this.#waitingSmall.shift();
      next.admit(this.#closed ? null : this.#slotOf(next));
    }
  }

  /** The large run that waits for longest. If it has to wait for others of its organization, the next organization's. */
  #next(): Waiting<Leave> | undefined {
    const blocked = new Set<string>();
    for (const run of this.#waiting) {
      if (this.#closed) return run;
      if (blocked.has(run.organizationId)) continue;
      if (this.#leavesReserve(run)) return run;
      blocked.add(run.organizationId);
    }
    return undefined;
  }

  #leavesReserve({ bytes, organizationId }: Needed): boolean {
    const held = this.#held.get(organizationId) ?? 0;
    const ordinary = this.#totalBytes - this.#smallShareBytes;
    return held === 0 || held + bytes + this.#reserveBytes <= ordinary;
  }

  #hasRoom(bytes: number): boolean {
    if (this.#growing.length > 0) return false;
    if (this.usedBytes === 0) return true;
    if (this.usedBytes + bytes > this.#totalBytes) return false;
    const ordinary = this.#totalBytes - this.#smallShareBytes;
    return this.#usedByLarge + bytes <= ordinary || this.#runs.large === 0;
  }

  /** If a large run waits, small runs keep to their share, so that it does not wait forever. */
  #hasRoomForSmall(bytes: number): boolean {
    const free = this.#totalBytes - this.usedBytes - bytes;
    if (free < 0) return this.usedBytes === 0 && this.#next() === undefined;
    const needed = this.#growing[0]?.bytes ?? this.#next()?.bytes ?? 0;
    if (needed <= free) return true;
    // The large runs inside that do not wait will leave.
    const isNext = this.#growing.length >= this.#runs.large;
    const freeBytes = this.#totalBytes - this.#usedByLarge - needed;
    const share = isNext ? Math.min(this.#smallShareBytes, freeBytes) : this.#smallShareBytes;
    return this.#used.small + bytes <= share;
  }

  #slotOf({ bytes, organizationId }: Needed): SmallSlot {
    let leave = this.#take(bytes, 'small');
    let isSmall = true;
    return {
      leave: () => leave(),
      outgrow: (more) => {
        if (!isSmall) return true;
        this.#used.small -= bytes;
        const hasSlot = this.#runs.large < this.#slots && this.#waiting.length === 0;
        const run = { bytes: more, organizationId };
        const fits = !this.#closed && hasSlot && this.#hasRoom(more) && this.#leavesReserve(run);
        this.#used.small += bytes;
        if (!fits) return false;
        isSmall = false;
        const large = this.#takeLarge(run);
        leave();
        leave = large;
        return true;
      },
    };
  }

  #takeLarge({ bytes, organizationId }: Needed): () => void {
    const held = this.#held.get(organizationId) ?? 0;
    this.#held.set(organizationId, held + bytes);
    const leave = this.#take(bytes, 'large');
    let inside = true;
    return () => {
      if (!inside) return;
      inside = false;
      const heldBytes = (this.#held.get(organizationId) ?? 0) - bytes;
      if (heldBytes > 0) this.#held.set(organizationId, heldBytes);
      else this.#held.delete(organizationId);
      leave();
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

/** Slots of small runs, which outlive the job that brought them. A long run holds its own slot only. */
export class SmallSlots {
  readonly #count: number;
  #free: number;
  readonly #waiting: (() => void)[] = [];
  readonly #running = new Set<Promise<void>>();

  constructor(count: number) {
    this.#count = count;
    this.#free = count;
  }

  /** Waits for a slot, then begins the run. @param run never rejects */
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

  /** The number of small runs in one job: the part of this worker, of `allSlots` of all, and no more than it can execute. */
  perJob(runs: number, allSlots: number): number {
    const workers = Math.max(1, Math.round(allSlots / Math.max(1, this.#count)));
    return Math.max(1, Math.min(this.#count, Math.ceil(runs / workers)));
  }

  /** True if the next slot that is free is taken at once. */
  get hasNext(): boolean {
    return this.#waiting.length > 0;
  }

  /** Resolves once no run is in progress. */
  async ended(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}
