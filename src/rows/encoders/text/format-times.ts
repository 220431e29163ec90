import { viewOf } from '../../../foundation/domain/byte-writer.ts';
import { writePair, writePairAnd } from '../../../foundation/domain/decimal-digits.ts';
import { epochDays } from '../../../foundation/domain/row-block.ts';
import { writeWord } from './format-integers.ts';

const DAY_US = 86_400_000_000;
const MAX_DATE = 0x7fff_ffff;
const MIN_DATE = -0x8000_0000;
const MAX_TIMESTAMP = 2n ** 63n - 1n;
const MIN_TIMESTAMP = -(2n ** 63n);
const WORD = 0x1_0000_0000;
/** 2^53 / 2^32: with a high half below this a number represents an int64 exactly. */
const EXACT_HIGH = 0x20_0000;

/**
 * The texts of days, each at the place of its number's lowest bits: rows near each other have few days. All 16
 * bytes of a place are written, though the text has fewer.
 */
const DAYS = 512;
const TEXT_BYTES = 16;
const keptDays = new Float64Array(DAYS).fill(Number.NaN);
const keptTexts = Buffer.alloc(DAYS * TEXT_BYTES);
const keptView = viewOf(keptTexts);
const keptLengths = new Uint8Array(DAYS);
const keptBeforeChrist = new Uint8Array(DAYS);

const COLON = 0x3a;
const POINT = 0x2e;

/** A date: `2024-03-01`; infinity, BC and years past 9999 as PostgreSQL writes them. */
export function writeDate(target: DataView, at: number, source: DataView, from: number): number {
  const days = source.getInt32(from);
  if (days === MAX_DATE) return writeWord(target, at, 'infinity');
  if (days === MIN_DATE) return writeWord(target, at, '-infinity');
  const place = placeOf(days);
  const to = writeDay(target, at, place);
  return keptBeforeChrist[place] === 1 ? writeWord(target, to, ' BC') : to;
}

/**
 * A timestamp with microseconds: `2024-03-01T00:00:00.000000`, with `Z` if it is an instant (timestamptz).
 * PostgreSQL's own words if ISO 8601 has none: `infinity`, ` BC` at the end.
 */
export function writeTimestamp(
  target: DataView,
  at: number,
  source: DataView,
  from: number,
  isInstant: boolean,
): number {
  const high = source.getInt32(from);
  let day: number;
  let rest: number;
  if (high < EXACT_HIGH && high >= -EXACT_HIGH) {
    const value = high * WORD + source.getUint32(from + 4);
    day = Math.floor(value / DAY_US);
    rest = value - day * DAY_US;
  } else {
    const value = source.getBigInt64(from);
    if (value === MAX_TIMESTAMP) return writeWord(target, at, 'infinity');
    if (value === MIN_TIMESTAMP) return writeWord(target, at, '-infinity');
    const restOf = BigInt.asIntN(
      64,
      ((value % 86_400_000_000n) + 86_400_000_000n) % 86_400_000_000n,
    );
    rest = Number(restOf);
    day = Number((value - restOf) / 86_400_000_000n);
  }
  const place = placeOf(day);
  let to = writeDay(target, at, place);
  const second = (rest / 1_000_000) | 0;
  const micros = (rest - second * 1_000_000) | 0;
  const minute = (second / 60) | 0;
  const hour = (minute / 60) | 0;
  target.setUint8(to, 0x54); // T
  writePairAnd(target, to + 1, hour, COLON);
  writePairAnd(target, to + 4, minute - hour * 60, COLON);
  writePairAnd(target, to + 7, second - minute * 60, POINT);
  const upper = (micros / 10_000) | 0;
  const lower = micros - upper * 10_000;
  const middle = (lower / 100) | 0;
  writePair(target, to + 10, upper);
  writePair(target, to + 12, middle);
  writePair(target, to + 14, lower - middle * 100);
  to += 16;
  if (isInstant) {
    target.setUint8(to, 0x5a); // Z
    to += 1;
  }
  return keptBeforeChrist[place] === 1 ? writeWord(target, to, ' BC') : to;
}

/** The place of a day, counted from 2000-01-01; its text is there. */
function placeOf(day: number): number {
  const place = day & (DAYS - 1);
  if (keptDays[place] !== day) formatDay(day, place);
  return place;
}

/** Writes `YYYY-MM-DD`, and bytes behind it. */
function writeDay(target: DataView, at: number, place: number): number {
  const text = place * TEXT_BYTES;
  // They are copied as numbers of eight bytes: a digit in the first byte is never that of a NaN.
  target.setFloat64(at, keptView.getFloat64(text));
  target.setFloat64(at + 8, keptView.getFloat64(text + 8));
  return at + (keptLengths[place] as number);
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
