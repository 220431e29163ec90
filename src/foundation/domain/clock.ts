/**
 * The only code that reads this host's clock. Use it for log times and local timeouts only: the
 * schedule, leases and run times use the clock of Postgres.
 */
export interface Clock {
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };
