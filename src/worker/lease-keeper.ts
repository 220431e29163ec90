import { SluiceError } from '../domain/errors.ts';
import type { Database } from '../store/database.ts';
import { type Lease, renewLeases, whyLost } from '../store/leases.ts';

export interface LeaseKeeperOptions {
  readonly db: Database;
  readonly leaseMs: number;
  readonly onError: (error: unknown) => void;
}

interface Held {
  readonly lease: Lease;
  readonly abort: AbortController;
  /** By the monotonic clock of this process, when the lease runs out for certain. */
  expiresAt: number;
}

/**
 * Keeps the leases of all runs of this worker by one heartbeat. A run whose lease is lost or
 * cancelled is told through its signal; so is one that could not be renewed in time, before
 * another worker may take it.
 */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions;
  readonly #held = new Map<string, Held>();
  readonly #timer: NodeJS.Timeout;
  #beating = false;

  constructor(options: LeaseKeeperOptions) {
    this.#options = options;
    // Often enough that a cancellation is noticed within two seconds.
    const everyMs = Math.min(options.leaseMs / 4, 2_000);
    this.#timer = setInterval(() => void this.#beat(), everyMs);
  }

  /** @returns aborted with the SluiceError that says why, once the lease is gone */
  keep(lease: Lease): AbortSignal {
    const abort = new AbortController();
    const expiresAt = performance.now() + this.#options.leaseMs;
    this.#held.set(lease.runId, { lease, abort, expiresAt });
    return abort.signal;
  }

  release(lease: Lease): void {
    const held = this.#held.get(lease.runId);
    if (held?.lease.fence === lease.fence) this.#held.delete(lease.runId);
  }

  /** Tells every run to stop and hand itself back. */
  releaseAll(): void {
    for (const { abort } of this.#held.values()) abort.abort(new SluiceError('run.released'));
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #beat(): Promise<void> {
    if (this.#beating || this.#held.size === 0) return;
    this.#beating = true;
    try {
      await this.#renew();
    } catch (error) {
      this.#options.onError(error);
    } finally {
      this.#beating = false;
      this.#expire();
    }
  }

  async #renew(): Promise<void> {
    const { db, leaseMs } = this.#options;
    const all = [...this.#held.values()];
    const asked = performance.now();
    const renewed = await renewLeases(
      db,
      all.map((held) => held.lease),
      leaseMs,
    );
    for (const held of all) {
      if (renewed.has(held.lease.runId)) {
        held.expiresAt = asked + leaseMs;
      } else if (this.#held.get(held.lease.runId) === held) {
        const why = await whyLost(db, held.lease);
        held.abort.abort(new SluiceError(why === 'cancelled' ? 'run.cancelled' : 'run.lease_lost'));
      }
    }
  }

  #expire(): void {
    const now = performance.now();
    for (const held of this.#held.values()) {
      if (now >= held.expiresAt) held.abort.abort(new SluiceError('run.lease_lost'));
    }
  }
}
