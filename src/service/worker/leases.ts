import { systemClock } from '../../foundation/domain/clock.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import type { PutLease } from '../../rows/destinations/destination.ts';
import type { Database } from '../../state/store/database/database.ts';
import type { Lease } from '../../state/store/runs/run-moves.ts';
import { renewLeases, whyLost } from '../../state/store/runs/leases.ts';
import { nameOwnFault } from './own-fault.ts';
import type { StepWatch } from './step-watch.ts';

interface LeaseKeeperOptions {
  readonly db: Database;
  readonly leaseMs: number;
  readonly onError: (error: unknown) => void;
}

interface Held {
  readonly lease: Lease;
  readonly abort: AbortController;
  /** The present step of its attempt; null: it does not say it. */
  readonly watch: Pick<StepWatch, 'current'> | null;
  /** When the lease has certainly expired, by the monotonic clock of this process. */
  expiresAt: number;
}

/**
 * Renews the leases of all runs of this worker with one heartbeat. The signal of a run says that its lease is lost,
 * cancelled, or could not be renewed before another worker may take it.
 */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions;
  readonly #held = new Map<string, Held>();
  readonly #timer: NodeJS.Timeout;
  readonly #everyMs: number;
  #beating = false;
  #released = false;

  constructor(options: LeaseKeeperOptions) {
    this.#options = options;
    // Often enough that a cancellation is noticed within two seconds.
    this.#everyMs = Math.min(options.leaseMs / 4, 2_000);
    this.#timer = setInterval(() => void this.#beat(), this.#everyMs);
  }

  /**
   * @param claimedAt `performance.now()` before the claim
   * @param watch the heartbeat says what it sees
   * @returns aborted, with the SluiceError as its reason, when the lease is lost
   */
  keep(lease: Lease, claimedAt: number, watch: Held['watch'] = null): AbortSignal {
    const abort = new AbortController();
    const expiresAt = claimedAt + this.#options.leaseMs;
    this.#held.set(lease.runId, { lease, abort, watch, expiresAt });
    if (this.#released) abort.abort(new SluiceError('run.released'));
    return abort.signal;
  }

  release(lease: Lease): void {
    const held = this.#held.get(lease.runId);
    if (held?.lease.fence === lease.fence) this.#held.delete(lease.runId);
  }

  /** Makes every run stop and hand itself back, including those claimed from now on. */
  releaseAll(): void {
    this.#released = true;
    for (const { abort } of this.#held.values()) abort.abort(new SluiceError('run.released'));
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #beat(): Promise<void> {
    // Also while an answer is awaited: a Postgres that hangs renews nothing.
    this.#expire();
    if (this.#beating || this.#held.size === 0) return;
    this.#beating = true;
    try {
      await this.#renew();
    } catch (error) {
      this.#options.onError(error);
    } finally {
      this.#beating = false;
    }
  }

  async #renew(): Promise<void> {
    const { db, leaseMs } = this.#options;
    const all = [...this.#held.values()];
    const askedAt = performance.now();
    const beats = all.map(({ lease, watch }) => ({ ...lease, step: watch?.current() ?? null }));
    const renewed = await renewLeases(db, beats, leaseMs);
    for (const held of all) {
      if (renewed.has(held.lease.runId)) {
        held.expiresAt = askedAt + leaseMs;
      } else if (this.#held.get(held.lease.runId) === held) {
        const why = await whyLost(db, held.lease);
        held.abort.abort(new SluiceError(why === 'cancelled' ? 'run.cancelled' : 'run.lease_lost'));
      }
    }
  }

  /** Also expires leases that would run out before the next check; that check may itself be late. */
  #expire(): void {
    const soon = performance.now() + 1.5 * this.#everyMs;
    for (const held of this.#held.values()) {
      if (soon >= held.expiresAt) held.abort.abort(new SluiceError('run.lease_lost'));
    }
  }
}

/** The monotonic clock stops while a machine sleeps or is paused. The clock of the host may be set back. */
const clocks = [() => performance.now(), () => systemClock.now()];

/** Less than this share of a lease may be too little for a put. */
const enough = 0.5;

/** A run's lease, as far as this process knows it without a question to our database. */
export class KnownLease implements PutLease {
  readonly #leaseMs: number;
  readonly #ask: () => Promise<boolean>;
  readonly #clocks: readonly (() => number)[];
  /** When it ends, by each clock. */
  #ends: readonly number[];

  /**
   * @param ask extends the lease in our database for `leaseMs`; false: it is lost
   * @param readers clocks in ms
   */
  constructor(leaseMs: number, ask: () => Promise<boolean>, readers = clocks) {
    this.#leaseMs = leaseMs;
    this.#ask = ask;
    this.#clocks = readers;
    this.#ends = readers.map(() => Number.NEGATIVE_INFINITY);
  }

  holds(): boolean {
    return this.#lasts(0);
  }

  async extend(always: boolean): Promise<void> {
    if (!always && this.#lasts(enough * this.#leaseMs)) return;
    await this.renewBy(this.#ask).catch((error: unknown) => {
      throw nameOwnFault(error);
    });
  }

  /**
   * @param ask as of the constructor
   * @throws SluiceError `run.lease_lost`
   */
  async renewBy(ask: () => Promise<boolean>): Promise<void> {
    const times = this.#clocks.map((read) => read());
    if (!(await ask())) throw new SluiceError('run.lease_lost');
    this.#ends = times.map((at) => at + this.#leaseMs);
  }

  #lasts(ms: number): boolean {
    return this.#clocks.every((read, index) => read() + ms < (this.#ends[index] ?? 0));
  }
}
