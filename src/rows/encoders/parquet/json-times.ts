import type { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import { parquetTypes, timeMicros } from './column-types.ts';
import { type JsonNumber, writeInt32, writeInt64 } from './json-numbers.ts';

/** Days, times of day and timestamps as PostgreSQL writes them in JSON: strings in ISO 8601. */

const secondMicros = 1_000_000;
const dayMicros = 86_400_000_000n;
const lastMicros = 2n ** 63n - 1n;

const dayForm = String.raw`(\d{4,7})-(\d\d)-(\d\d)`;
const clockForm = String.raw`(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?`;
const days = new RegExp(`^"${dayForm}( BC)?"$`);
const clocks = new RegExp(`^"${clockForm}"$`);
const moments = new RegExp(String.raw`^"${dayForm}[T ]${clockForm}(?:Z|\+00:00)?( BC)?"$`);

/** `"23:59:59.999999"`, a time without time zone. */
export const timeNumber: JsonNumber = {
  type: timeMicros,
  check(bytes, from, end) {
    const text = bytes.toString('latin1', from, end);
    if (!clocks.test(text)) return 'not written as a time is';
    return text < '"24' ? undefined : '24:00:00 has no Parquet time';
  },
  read(bytes, from, end) {
    return microsOfClock(clocks.exec(bytes.toString('latin1', from, end))?.slice(1) ?? []);
  },
  write: writeInt64,
};

/** `"2024-03-01"` */
export const dateNumber: JsonNumber = {
  type: parquetTypes.date,
  check(bytes, from, end) {
    const text = bytes.toString('latin1', from, end);
    if (days.test(text)) return undefined;
    return infinityOf(text, 'date') ?? 'not written as a date is';
  },
  read(bytes, from, end) {
    const [, year, month, day, era] = days.exec(bytes.toString('latin1', from, end)) ?? [];
    return daysSince1970(yearOf(year, era), Number(month), Number(day));
  },
  write: writeInt32,
};

/** `"2024-03-01T12:00:00.5"`, and with `+00:00` if it is an instant. */
export function momentNumber(type: 'timestamp' | 'timestamptz'): JsonNumber {
  const read = (text: string): bigint => {
    const [, year, month, day, hours, minutes, seconds, fraction, era] = moments.exec(text) ?? [];
    const date = daysSince1970(yearOf(year, era), Number(month), Number(day));
    const clock = microsOfClock([hours, minutes, seconds, fraction]);
    return BigInt(date) * dayMicros + BigInt(clock);
  };
  return {
    type: parquetTypes[type],
    check(bytes, from, end) {
      const text = bytes.toString('latin1', from, end);
      if (!moments.test(text)) {
        return infinityOf(text, 'timestamp') ?? 'not written as a timestamp is';
      }
      if (read(text) <= lastMicros) return undefined;
      return 'later than 294247-01-10T04:00:54.775807Z, the last Parquet timestamp';
    },
    read: (bytes, from, end) => read(bytes.toString('latin1', from, end)),
    write: (out: ByteWriter, value) => writeInt64(out, BigInt(value)),
  };
}

function infinityOf(text: string, type: string): string | undefined {
  const [, found] = /^"(-?infinity)"$/.exec(text) ?? [];
  return found && `${found} has no Parquet ${type}`;
}

type Part = string | undefined;

function microsOfClock([hours, minutes, seconds, fraction = '']: readonly Part[]): number {
  const whole = (Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds);
  return whole * secondMicros + Number(fraction.padEnd(6, '0'));
}

/** The year 1 BC is 0. */
function yearOf(year: Part, era: Part): number {
  return era === undefined ? Number(year) : 1 - Number(year);
}

/** Counts days of the Gregorian calendar, which PostgreSQL uses for all years. Counts years from March on. */
function daysSince1970(year: number, month: number, day: number): number {
  const shifted = month > 2 ? year : year - 1;
  const ofYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1;
  const leaps = Math.floor(shifted / 4) - Math.floor(shifted / 100) + Math.floor(shifted / 400);
  return shifted * 365 + leaps + ofYear - 719_468;
}
