/**
 * The one place that reads this host's clock. It serves log times and local timeouts only: the
 * schedule, leases and run times all come from Postgres.
 */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };
