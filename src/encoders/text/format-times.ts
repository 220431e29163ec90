import { epochDays } from '../../domain/row-block.ts';
import { readInt32, readInt64, writeDigits } from './format-integers.ts';

const DAY_US = 86_400_000_000;
const MAX_DATE = 0x7fff_ffff;
const MIN_DATE = -0x8000_0000;
const MAX_TIMESTAMP = 2n ** 63n - 1n;
const MIN_TIMESTAMP = -(2n ** 63n);

/** The last day's text, cached because neighbouring rows mostly have the same day. */
let lastDay = Number.NaN;
const lastText = Buffer.alloc(16);
let lastBytes = 0;
let lastBeforeChrist = false;

/** A date: `2024-03-01`; infinity, BC and years past 9999 as PostgreSQL writes them. */
export function writeDate(out: Buffer, at: number, bytes: Buffer, from: number): number {
  const days = readInt32(bytes, from);
  if (days === MAX_DATE) return at + out.write('infinity', at, 'latin1');
  if (days === MIN_DATE) return at + out.write('-infinity', at, 'latin1');
  const to = writeDay(out, at, days);
  return lastBeforeChrist ? to + out.write(' BC', to, 'latin1') : to;
}

/**
 * A timestamp with microseconds: `2024-03-01T00:00:00.000000`, with `Z` if it is an instant (timestamptz).
 * PostgreSQL's own words if ISO 8601 has none: `infinity`, ` BC` at the end.
 */
export function writeTimestamp(
  out: Buffer,
  at: number,
  bytes: Buffer,
  from: number,
  isInstant: boolean,
): number {
  const value = readInt64(bytes, from);
  let day: number;
  let rest: number;
  if (typeof value === 'number') {
    day = Math.floor(value / DAY_US);
    rest = value - day * DAY_US;
  } else {
    if (value === MAX_TIMESTAMP) return at + out.write('infinity', at, 'latin1');
    if (value === MIN_TIMESTAMP) return at + out.write('-infinity', at, 'latin1');
    const restOf = BigInt.asIntN(
      64,
      ((value % 86_400_000_000n) + 86_400_000_000n) % 86_400_000_000n,
    );
    rest = Number(restOf);
    day = Number((value - restOf) / 86_400_000_000n);
  }
  let to = writeDay(out, at, day);
  const seconds = Math.floor(rest / 1_000_000);
  const hours = (seconds / 3600) | 0;
  const minutes = ((seconds - hours * 3600) / 60) | 0;
  out[to] = 0x54; // T
  writeDigits(out, to + 1, hours, 2);
  out[to + 3] = 0x3a;
  writeDigits(out, to + 4, minutes, 2);
  out[to + 6] = 0x3a;
  writeDigits(out, to + 7, seconds - hours * 3600 - minutes * 60, 2);
  out[to + 9] = 0x2e;
  writeDigits(out, to + 10, rest - seconds * 1_000_000, 6);
  to += 16;
  if (isInstant) {
    out[to] = 0x5a; // Z
    to += 1;
  }
  return lastBeforeChrist ? to + out.write(' BC', to, 'latin1') : to;
}

/** Writes `YYYY-MM-DD` of a day counted from 2000-01-01 and records whether it is BC. */
function writeDay(out: Buffer, at: number, day: number): number {
  if (day !== lastDay) formatDay(day);
  for (let index = 0; index < lastBytes; index += 1) out[at + index] = lastText[index] as number;
  return at + lastBytes;
}

/** Day number to calendar date: http://howardhinnant.github.io/date_algorithms.html#civil_from_days */
function formatDay(day: number): void {
  const shifted = day + epochDays + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra -
      Math.floor(dayOfEra / 1460) +
      Math.floor(dayOfEra / 36_524) -
      Math.floor(dayOfEra / 146_096)) /
      365,
  );
  const dayOfYear =
    dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const shiftedMonth = Math.floor((5 * dayOfYear + 2) / 153);
  const dayOfMonth = dayOfYear - Math.floor((153 * shiftedMonth + 2) / 5) + 1;
  const month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9;
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0);
  lastBeforeChrist = year <= 0;
  const shownYear = lastBeforeChrist ? 1 - year : year;
  const pad = (value: number, digits: number) => value.toString().padStart(digits, '0');
  lastBytes = lastText.write(
    `${pad(shownYear, 4)}-${pad(month, 2)}-${pad(dayOfMonth, 2)}`,
    0,
    'latin1',
  );
  lastDay = day;
}
