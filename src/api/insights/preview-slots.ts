import { ApiError } from '../api-error.ts';

export interface PreviewLimits {
  /** Maximum previews at a time, per organization and in all. */
  readonly perTenant: number;
  readonly inAll: number;
  /** Maximum requests that wait for a slot, per organization and in all. */
  readonly waitingPerTenant: number;
  readonly waitingInAll: number;
}

const defaults: PreviewLimits = {
  perTenant: 2,
  inAll: 8,
  waitingPerTenant: 4,
  waitingInAll: 16,
};

interface Waiting {
  readonly organizationId: string;
  readonly admit: () => void;
}

/**
 * Slots for previews and for tests of destinations. Each uses a connection to a source; no tenant may take all slots, however many
 * projects it has.
 */
export class PreviewSlots {
  readonly #limits: PreviewLimits;
  readonly #inside: string[] = [];
  #waiting: readonly Waiting[] = [];

  constructor(limits: Partial<PreviewLimits> = {}) {
    this.#limits = { ...defaults, ...limits };
  }

  /**
   * Runs `work` in a slot; requests wait in the order of arrival. An abort ends the wait.
   *
   * @throws ApiError 429 if too many requests wait; the signal's reason if it aborts
   */
  async use<T>(organizationId: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#enter(organizationId, signal);
    try {
      return await work();
    } finally {
      this.#inside.splice(this.#inside.indexOf(organizationId), 1);
      this.#admit();
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

function tooMany(): ApiError {
  const detail = 'Too many of these requests at the same time. Try again in 5 seconds.';
  const problem = { code: 'throttled', detail, attr: null } as const;
  return new ApiError(429, [problem], { 'retry-after': '5' });
}
