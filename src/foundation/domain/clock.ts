/** This host's clock, for log times and local timeouts only: schedule, leases and run times use the clock of Postgres. */
export interface Clock {
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };
