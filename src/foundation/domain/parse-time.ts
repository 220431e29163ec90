import { type Timestamp, toTimestamp } from './time.ts';

const iso =
  /^(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|z|[+-]\d\d(?::?\d\d)?)?)?$/;

export interface ParsedTime {
  readonly timestamp: Timestamp;
  /** True if the text contains its offset from UTC. */
  readonly hasOffset: boolean;
}

/** Reads ISO 8601 of the years 1–9999, in UTC unless it has an offset. Digits beyond microseconds are cut. Null if it is no time. */
export function parseTime(text: string): ParsedTime | null {
  const [, date, minutes = '00:00', seconds = '00', fraction = '', zone] = iso.exec(text) ?? [];
  if (date === undefined) return null;
  const local = `${date}T${minutes}:${seconds}`;
  const localMs = Date.parse(`${local}Z`);
  // Some engines turn 30 February into a day of March: formatted again, it must be the same text.
  if (Number.isNaN(localMs) || !toTimestamp(localMs).startsWith(local)) return null;
  const offsetMs = readOffsetMs(zone);
  if (offsetMs === null) return null;
  const timestamp = toTimestamp(localMs - offsetMs);
  if (!/^\d{4}-/.test(timestamp) || timestamp.startsWith('0000')) return null;
  return {
    timestamp: timestamp.replace(/\.\d+Z$/, `.${fraction.slice(0, 6).padEnd(6, '0')}Z`),
    hasOffset: zone !== undefined,
  };
}

function readOffsetMs(zone: string | undefined): number | null {
  if (zone === undefined || zone === 'Z' || zone === 'z') return 0;
  const hours = Number(zone.slice(1, 3));
  const minutes = Number(zone.slice(3).replace(':', '') || '0');
  // No zone is more than 14 hours from UTC; PostgreSQL takes less than 16.
  if (hours > 15 || minutes > 59) return null;
  return (zone.startsWith('-') ? -1 : 1) * (hours * 60 + minutes) * 60_000;
}

/** Reads `-7d`, `-2h`: hours, days, weeks, months or years back. @returns the span for PostgreSQL (`7 days`), or null */
export function parseSpanBack(text: string): string | null {
  const [, count, unit] = /^-(\d{1,4}(?=[hdwm])|\d{1,3}(?=y))([hdwmy])$/.exec(text) ?? [];
  if (count === undefined || unit === undefined) return null;
  return `${Number(count)} ${spanUnits[unit as keyof typeof spanUnits]}`;
}

const spanUnits = { h: 'hours', d: 'days', w: 'weeks', m: 'months', y: 'years' } as const;
