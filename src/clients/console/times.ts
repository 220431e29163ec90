/** Times for people. The API uses ISO 8601 in UTC; calculations use milliseconds. */

/** Sunday is day 0, as in the API. */
export const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

export interface TimeFormat {
  /** `14:05 UTC`, `12 Mar, 14:05 UTC`, `12 Mar 2023, 14:05 UTC`: omits what is the same as in `nowMs`. */
  moment(iso: string, nowMs: number): string;
  /** `12 Mar, 14:00 – 15:00 UTC`; both zones if the clocks change within it. */
  interval(startIso: string | null, endIso: string, nowMs: number): string;
  /** `moment` with seconds. */
  stamp(iso: string, nowMs: number): string;
  inputValue(iso: string): string;
}

/** @param timeZone an IANA name; the reader's own by default */
export function createTimeFormat(locale?: string, timeZone?: string): TimeFormat {
  const zone = timeZone === undefined ? {} : { timeZone };
  const format = (options: Intl.DateTimeFormatOptions, tag = locale) =>
    new Intl.DateTimeFormat(tag, { ...zone, ...options });
  const clock = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const;
  const time = format(clock);
  const seconds = format({ ...clock, second: '2-digit' });
  const day = format({ day: 'numeric', month: 'short' });
  const dayOfYear = format({ day: 'numeric', month: 'short', year: 'numeric' });
  // Swedish writes dates as ISO 8601 does.
  const sortable = format({ dateStyle: 'short', timeStyle: 'short' }, 'sv-SE');
  const dateOf = (ms: number) => sortable.format(ms).slice(0, 10);
  const date = (ms: number, nowMs: number) =>
    (dateOf(ms).slice(0, 4) === dateOf(nowMs).slice(0, 4) ? day : dayOfYear).format(ms);
  const moment = (ms: number, nowMs: number, by = time) =>
    dateOf(ms) === dateOf(nowMs) ? by.format(ms) : `${date(ms, nowMs)}, ${by.format(ms)}`;
  const named = format({ timeZoneName: 'short' });
  const zoneAt = (ms: number) =>
    named.formatToParts(ms).find(({ type }) => type === 'timeZoneName')?.value ?? '';
  return {
    stamp: (iso, nowMs) => `${moment(Date.parse(iso), nowMs, seconds)} ${zoneAt(Date.parse(iso))}`,
    moment: (iso, nowMs) => `${moment(Date.parse(iso), nowMs)} ${zoneAt(Date.parse(iso))}`,
    interval(startIso, endIso, nowMs) {
      const end = Date.parse(endIso);
      const zone = zoneAt(end);
      if (startIso === null) return `up to ${moment(end, nowMs)} ${zone}`;
      const start = Date.parse(startIso);
      const [startText, startZone] = [
        `${date(start, nowMs)}, ${time.format(start)}`,
        zoneAt(start),
      ];
      const from = startZone === zone ? startText : `${startText} ${startZone}`;
      return dateOf(start) === dateOf(end)
        ? `${from} – ${time.format(end)} ${zone}`
        : `${from} – ${date(end, nowMs)}, ${time.format(end)} ${zone}`;
    },
    inputValue: (iso) => sortable.format(Date.parse(iso)).replace(' ', 'T'),
  };
}

/** `2024-03-01 00:00:00 UTC`, for the hover. */
export function formatUtc(iso: string): string {
  return `${iso.slice(0, 19).replace('T', ' ')} UTC`;
}

/** A `datetime-local` value with the offset of the reader's zone at that time; null if it is not a time. */
export function readLocalInput(value: string): string | null {
  const local = Date.parse(value);
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(value) || Number.isNaN(local)) return null;
  const offsetMinutes = Math.round((Date.parse(`${value.slice(0, 16)}Z`) - local) / 60_000);
  const sign = offsetMinutes < 0 ? '-' : '+';
  const two = (n: number) => String(n).padStart(2, '0');
  const size = Math.abs(offsetMinutes);
  return `${value.slice(0, 16)}:00${sign}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

const units: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
];

/** The largest two units: `2 d 3 h`, `4 min 10 s`, `0.8 s`. Never negative. */
export function formatDuration(ms: number): string {
  const span = Math.max(0, ms);
  if (span < 10_000) return `${(span / 1_000).toFixed(1)} s`;
  const first = units.findIndex(([, size]) => span >= size);
  const [unit, size] = units[first] ?? ['s', 1_000];
  const whole = Math.floor(span / size);
  const next = units[first + 1];
  const rest = next ? Math.floor((span % size) / next[1]) : 0;
  return next && rest > 0 ? `${whole} ${unit} ${rest} ${next[0]}` : `${whole} ${unit}`;
}

/** Of what has happened: a clock that is behind does not make it a future. */
export const formatAgo = (iso: string, nowMs: number): string =>
  formatRelative(iso, Math.max(nowMs, Date.parse(iso)));

/** One unit, from now: `in 12 min`, `3 h ago`, `just now`. */
export function formatRelative(iso: string, nowMs: number): string {
  const distance = Date.parse(iso) - nowMs;
  const size = Math.abs(distance);
  const [unit, unitMs] = units.find(([, ms]) => size >= ms) ?? ['s', 1_000];
  const amount = Math.floor(size / unitMs);
  if (amount === 0 || (unit === 's' && amount < 5)) {
    return distance > 0 ? 'in a moment' : 'just now';
  }
  return distance > 0 ? `in ${amount} ${unit}` : `${amount} ${unit} ago`;
}
