import { epochDays } from '../../domain/row-block.ts';
import { readInt32, writePair } from './format-integers.ts';

const DAY_US = 86_400_000_000;
const MAX_DATE = 0x7fff_ffff;
const MIN_DATE = -0x8000_0000;
const MAX_TIMESTAMP = 2n ** 63n - 1n;
const MIN_TIMESTAMP = -(2n ** 63n);
const WORD = 0x1_0000_0000;
/** 2^53 / 2^32: with a high half below this a number represents an int64 exactly. */
const EXACT_HIGH = 0x20_0000;

/** The texts of days, each at the place of its number's lowest bits: rows near each other have few days. */
const DAYS = 512;
const TEXT_BYTES = 16;
const keptDays = new Float64Array(DAYS).fill(Number.NaN);
const keptTexts = Buffer.alloc(DAYS * TEXT_BYTES);
const keptLengths = new Uint8Array(DAYS);
const keptBeforeChrist = new Uint8Array(DAYS);

/** Whether the day that was written last is before Christ. */
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
  const high = readInt32(bytes, from);
  let day: number;
  let rest: number;
  if (high < EXACT_HIGH && high >= -EXACT_HIGH) {
    const value = high * WORD + (readInt32(bytes, from + 4) >>> 0);
    day = Math.floor(value / DAY_US);
    rest = value - day * DAY_US;
  } else {
    const value = bytes.readBigInt64BE(from);
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
  const micros = rest - seconds * 1_000_000;
  const minutes = (seconds / 60) | 0;
  const hours = (minutes / 60) | 0;
  out[to] = 0x54; // T
  writePair(out, to + 1, hours);
  out[to + 3] = 0x3a;
  writePair(out, to + 4, minutes - hours * 60);
  out[to + 6] = 0x3a;
  writePair(out, to + 7, seconds - minutes * 60);
  out[to + 9] = 0x2e;
  const upper = (micros / 10_000) | 0;
  const lower = micros - upper * 10_000;
  const middle = (lower / 100) | 0;
  writePair(out, to + 10, upper);
  writePair(out, to + 12, middle);
  writePair(out, to + 14, lower - middle * 100);
  to += 16;
  if (isInstant) {
    out[to] = 0x5a; // Z
    to += 1;
  }
  return lastBeforeChrist ? to + out.write(' BC', to, 'latin1') : to;
}

/** Writes `YYYY-MM-DD` of a day counted from 2000-01-01 and records whether it is BC. */
function writeDay(out: Buffer, at: number, day: number): number {
  const place = day & (DAYS - 1);
  if (keptDays[place] !== day) formatDay(day, place);
  lastBeforeChrist = keptBeforeChrist[place] === 1;
  const end = at + (keptLengths[place] as number);
  for (let to = at, from = place * TEXT_BYTES; to < end; to += 1, from += 1) {
    out[to] = keptTexts[from] as number;
  }
  return end;
}

/** Day number to calendar date: http://howardhinnant.github.io/date_algorithms.html#civil_from_days */
function formatDay(day: number, place: number): void {
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
  const shownYear = year <= 0 ? 1 - year : year;
  const pad = (value: number, digits: number) => value.toString().padStart(digits, '0');
  keptLengths[place] = keptTexts.write(
    `${pad(shownYear, 4)}-${pad(month, 2)}-${pad(dayOfMonth, 2)}`,
    place * TEXT_BYTES,
    'latin1',
  );
  keptBeforeChrist[place] = year <= 0 ? 1 : 0;
  keptDays[place] = day;
}
