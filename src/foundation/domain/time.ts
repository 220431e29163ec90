/** Milliseconds since the Unix epoch, UTC. Bounds of intervals and ticks are whole seconds. */
export type Instant = number;

/** A time as Postgres gave it: `2024-03-01T00:00:00.000000Z`, UTC, always six decimals. */
export type Timestamp = string;

/** Half-open: includes `start`, excludes `end`. Always `start < end`. */
export interface DataInterval {
  readonly start: Instant;
  readonly end: Instant;
}

export function toTimestamp(instant: Instant): Timestamp {
  return `${new Date(instant).toISOString().slice(0, -1)}000Z`;
}

export const toTimestampOrNull = (instant: Instant | null): Timestamp | null =>
  instant === null ? null : toTimestamp(instant);

/** A time for people: whole seconds. */
export const inSeconds = (timestamp: Timestamp): string => timestamp.replace(/\.\d+Z$/, 'Z');

export function describeInterval({ start, end }: DataInterval): string {
  return `${inSeconds(toTimestamp(start))} to ${inSeconds(toTimestamp(end))}`;
}

/** The first millisecond at or after `timestamp` (microseconds round up). */
export function ceilInstant(timestamp: Timestamp): Instant {
  const floor = floorInstant(timestamp);
  return /\.\d{3}0*Z$/.test(timestamp) ? floor : floor + 1;
}

/** The last millisecond at or before `timestamp` (microseconds are cut). */
export function floorInstant(timestamp: Timestamp): Instant {
  return Date.parse(timestamp.replace(/(\.\d{3})\d*Z$/, '$1Z'));
}
