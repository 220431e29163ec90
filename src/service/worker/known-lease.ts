import type { PutLease } from '../../rows/destinations/destination.ts';
import { systemClock } from '../../foundation/domain/clock.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { nameOwnFault } from './own-fault.ts';

/**
 * The monotonic clock goes on while a process is stopped, but not while its machine sleeps or is paused. The host's
 * clock is then corrected; it may also be set back.
 */
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
    await this.confirm().catch((error: unknown) => {
      throw nameOwnFault(error);
    });
  }

  /** @throws SluiceError `run.lease_lost`; errors of our database */
  confirm(): Promise<void> {
    return this.renewBy(this.#ask);
  }

  /**
   * @param ask as of the constructor
   * @throws SluiceError `run.lease_lost`
   */
  async renewBy(ask: () => Promise<boolean>): Promise<void> {
    const asked = this.#clocks.map((read) => read());
    if (!(await ask())) throw new SluiceError('run.lease_lost');
    this.#ends = asked.map((at) => at + this.#leaseMs);
  }

  #lasts(ms: number): boolean {
    return this.#clocks.every((read, index) => read() + ms < (this.#ends[index] ?? 0));
  }
}
