import { Throttled } from '../../../foundation/domain/problem.ts';

export interface TimeShare {
  /** Time in slots that an organization may use up at once, in ms. */
  readonly savedMs: number;
  /** The part of that time that comes back per second, in ms. */
  readonly savedPerSecondMs: number;
}

export interface PreviewLimits extends TimeShare {
  readonly perTenant: number;
  readonly inAll: number;
  readonly waitingPerTenant: number;
  readonly waitingInAll: number;
}

const defaults: PreviewLimits = {
  perTenant: 2,
  inAll: 8,
  waitingPerTenant: 4,
  waitingInAll: 16,
  savedMs: Number.POSITIVE_INFINITY,
  savedPerSecondMs: 0,
};

interface Savings {
  readonly ms: number;
  readonly at: number;
}

interface Waiting {
  readonly organizationId: string;
  readonly admit: () => void;
}

/** Slots for what connects to a source. No tenant may take all slots, however many projects it has, nor keep its slots busy all the time. */
export class PreviewSlots {
  readonly #limits: PreviewLimits;
  readonly #inside: string[] = [];
  #waiting: readonly Waiting[] = [];
  readonly #savings = new Map<string, Savings>();
  readonly #now: () => number;

  /** @param now a clock in ms that never goes back */
  constructor(limits: Partial<PreviewLimits> = {}, now = () => performance.now()) {
    this.#limits = { ...defaults, ...limits };
    this.#now = now;
  }

  /** Runs `work` in a slot, in the order of arrival. An abort ends the wait. @throws Throttled */
  async use<T>(organizationId: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    this.#checkTime(organizationId);
    await this.#enter(organizationId, signal);
    let startedAt = this.#now();
    try {
      // Those that it waited for may have used the time.
      this.#checkTime(organizationId);
      startedAt = this.#now();
      return await work();
    } finally {
      this.#spend(organizationId, this.#now() - startedAt);
      this.#inside.splice(this.#inside.indexOf(organizationId), 1);
      this.#admit();
    }
  }

  #checkTime(organizationId: string): void {
    const leftMs = this.#timeLeft(organizationId);
    if (leftMs <= 0) throw tooLong(Math.ceil(1 - leftMs / this.#limits.savedPerSecondMs));
  }

  #timeLeft(organizationId: string): number {
    const { savedMs, savedPerSecondMs } = this.#limits;
    const { ms, at } = this.#savings.get(organizationId) ?? { ms: savedMs, at: 0 };
    return Math.min(savedMs, ms + ((this.#now() - at) / 1_000) * savedPerSecondMs);
  }

  #spend(organizationId: string, ms: number): void {
    const { savedMs } = this.#limits;
    if (savedMs === Number.POSITIVE_INFINITY) return;
    this.#savings.set(organizationId, { ms: this.#timeLeft(organizationId) - ms, at: this.#now() });
    for (const id of this.#savings.keys()) {
      if (this.#timeLeft(id) >= savedMs) this.#savings.delete(id);
    }
  }

  #enter(organizationId: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#hasSlot(organizationId)) {
      this.#inside.push(organizationId);
      return Promise.resolve();
    }
    const { waitingPerTenant, waitingInAll } = this.#limits;
    const own = this.#waiting.filter((waiting) => waiting.organizationId === organizationId);
    if (own.length >= waitingPerTenant || this.#waiting.length >= waitingInAll) throw tooMany();
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting = this.#waiting.filter((other) => other !== waiting);
        reject(signal.reason);
      };
      const admit = () => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      const waiting: Waiting = { organizationId, admit };
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting = [...this.#waiting, waiting];
    });
  }

  #hasSlot(organizationId: string): boolean {
    const own = this.#inside.filter((other) => other === organizationId).length;
    return this.#inside.length < this.#limits.inAll && own < this.#limits.perTenant;
  }

  #admit(): void {
    const next = this.#waiting.find(({ organizationId }) => this.#hasSlot(organizationId));
    if (!next) return;
    this.#waiting = this.#waiting.filter((other) => other !== next);
    this.#inside.push(next.organizationId);
    next.admit();
  }
}

const tooMany = () => throttled('Too many of these requests at the same time.', 5);

const tooLong = (seconds: number) =>
  throttled('Requests of this kind by your organization took too long in sum.', seconds);

const throttled = (why: string, seconds: number) =>
  new Throttled(`${why} Try again in ${seconds} seconds.`, seconds * 1_000);
