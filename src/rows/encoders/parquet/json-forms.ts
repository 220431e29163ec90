import type { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import { fitsDecimal } from '../../../foundation/domain/decimal-columns.ts';
import type { TimeAs } from '../../../foundation/domain/format-settings.ts';
import {
  CLOSE_LIST,
  COMMA,
  endOfString,
  OPEN_LIST,
  OPEN_OBJECT,
  QUOTE,
  SPACE,
} from '../../../foundation/domain/json-bytes.ts';
import { readFloat4 } from '../text/format-floats.ts';
import { copyBytes, decodeJsonString, isEscaped } from '../text/json-text.ts';
import { type ParquetType, parquetTypes, timeMicros } from './column-types.ts';
import { decimalNumber, type JsonNumber, writeInt32, writeInt64 } from './json-numbers.ts';

export interface JsonForm {
  readonly type: ParquetType;
  /** Why the type has no such value, without the value; undefined if it has. */
  check(bytes: Buffer, from: number, end: number): string | undefined;
  /** Appends a value that `check` accepts, PLAIN, but a boolean as a byte of its own. */
  put(out: ByteWriter, bytes: Buffer, from: number, end: number): void;
}

const localTime = /^time(\(\d\))? without time zone$/;

export function jsonNumberOf(
  sourceType: string,
  timeAs: TimeAs = 'micros',
): JsonNumber | undefined {
  if (localTime.test(sourceType)) return timeAs === 'text' ? undefined : timeNumber;
  const [, precision, scale] = /^numeric\((\d+),(-?\d+)\)$/.exec(sourceType) ?? [];
  if (precision === undefined) return undefined;
  const limits = { precision: Number(precision), scale: Number(scale) };
  return fitsDecimal(limits) ? decimalNumber(limits.precision, limits.scale) : undefined;
}

export function elementFormOf(arrayType: string, timeAs: TimeAs): JsonForm | undefined {
  const element = arrayType.slice(0, -2);
  const form = elementForms.get(element.replace(/\(\d+\)/, ''));
  if (!/^(numeric|time)\b/.test(element)) return form;
  if (timeAs === 'text' && localTime.test(element)) return texts;
  const number = jsonNumberOf(element, timeAs);
  return number ? formOf(number) : /^numeric\b/.test(element) ? numericText : form;
}

function formOf(number: JsonNumber): JsonForm {
  return {
    type: number.type,
    check: number.check,
    put: (out, bytes, from, end) => number.write(out, number.read(bytes, from, end)),
  };
}

function integerForm(type: 'int2' | 'int4' | 'int8', bits: number): JsonForm {
  return {
    type: parquetTypes[type],
    check(bytes, from, end) {
      const text = bytes.toString('latin1', from, end);
      const isWhole = /^-?\d{1,19}$/.test(text);
      const fits = isWhole && BigInt.asIntN(bits, BigInt(text)) === BigInt(text);
      return fits ? undefined : `not a whole number of ${bits} bits`;
    },
    put(out, bytes, from, end) {
      const value = BigInt(bytes.toString('latin1', from, end));
      if (bits === 64) writeInt64(out, value);
      else writeInt32(out, value);
    },
  };
}

/** A number, or a string if it is not finite. */
const numberForm = /^(-?\d[\d.]*([eE][-+]?\d+)?|"(NaN|-?Infinity)")$/;

function floatForm(type: 'float4' | 'float8'): JsonForm {
  return {
    type: parquetTypes[type],
    check: (bytes, from, end) =>
      numberForm.test(bytes.toString('latin1', from, end)) ? undefined : 'not a number',
    put(out, bytes, from, end) {
      out.ensure(8);
      const text = bytes.toString('latin1', from, end).replaceAll('"', '');
      if (type === 'float4') out.view.setFloat32(out.length, readFloat4(text), true);
      else out.view.setFloat64(out.length, Number(text), true);
      out.length += type === 'float4' ? 4 : 8;
    },
  };
}

const booleans: JsonForm = {
  type: parquetTypes.bool,
  check: (bytes, from, end) =>
    /^(true|false)$/.test(bytes.toString('latin1', from, end)) ? undefined : 'not a boolean',
  put: (out, bytes, from) => out.put(bytes[from] === 0x74 ? 1 : 0),
};

function textForm(isText: (bytes: Buffer, from: number, end: number) => boolean): JsonForm {
  return {
    type: parquetTypes.text,
    check: (bytes, from, end) => (isText(bytes, from, end) ? undefined : 'not a text'),
    put(out, bytes, from, end) {
      if (bytes[from] !== QUOTE) putBytes(out, bytes, from, end);
      else if (!isEscaped(bytes, from, end)) putBytes(out, bytes, from + 1, end - 1);
      else {
        const text = decodeJsonString(bytes, from, end);
        putBytes(out, text, 0, text.length);
      }
    },
  };
}

const texts = textForm((bytes, from) => bytes[from] === QUOTE);
const numericText = textForm((bytes, from, end) =>
  numberForm.test(bytes.toString('latin1', from, end)),
);

const bytesForm: JsonForm = {
  type: parquetTypes.bytea,
  check: (bytes, from, end) =>
    /^"\\\\x([0-9a-f]{2})*"$/i.test(bytes.toString('latin1', from, end)) ? undefined : 'not bytes',
  // After `"\\x`, up to the quote.
  put(out, bytes, from, end) {
    const raw = Buffer.from(bytes.toString('latin1', from + 4, end - 1), 'hex');
    putBytes(out, raw, 0, raw.length);
  },
};

function putBytes(out: ByteWriter, bytes: Buffer, from: number, end: number): void {
  out.ensure(end - from + 4);
  out.view.setUint32(out.length, end - from, true);
  out.length += 4;
  copyBytes(out, bytes, from, end);
}

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
const timeNumber: JsonNumber = {
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

const dateNumber: JsonNumber = {
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
function momentNumber(type: 'timestamp' | 'timestamptz'): JsonNumber {
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

const elementForms: ReadonlyMap<string, JsonForm> = new Map([
  ['boolean', booleans],
  ['smallint', integerForm('int2', 16)],
  ['integer', integerForm('int4', 32)],
  ['bigint', integerForm('int8', 64)],
  ['real', floatForm('float4')],
  ['double precision', floatForm('float8')],
  ['text', texts],
  ['name', texts],
  ['uuid', texts],
  ['character varying', texts],
  ['character', texts],
  ['bpchar', texts],
  ['date', formOf(dateNumber)],
  ['timestamp without time zone', formOf(momentNumber('timestamp'))],
  ['timestamp with time zone', formOf(momentNumber('timestamptz'))],
  ['bytea', bytesForm],
]);

export const notFlat = -1;

/**
 * Without decoding them. @param visit gets the start and the end of an element @returns how many there are; `notFlat` if
 * the value is no array or an element is an array or an object
 */
export function scanArray(
  bytes: Buffer,
  from: number,
  end: number,
  visit: (from: number, end: number) => void,
): number {
  if (bytes[from] !== OPEN_LIST) return notFlat;
  let count = 0;
  let at = skipSpace(bytes, from + 1, end);
  while (at < end && bytes[at] !== CLOSE_LIST) {
    const first = bytes[at];
    if (first === OPEN_LIST || first === OPEN_OBJECT) return notFlat;
    const elementEnd = first === QUOTE ? endOfString(bytes, at, end) : wordEnd(bytes, at, end);
    visit(at, elementEnd);
    count++;
    at = skipSpace(bytes, elementEnd, end);
    if (bytes[at] === COMMA) at = skipSpace(bytes, at + 1, end);
  }
  return count;
}

function skipSpace(bytes: Buffer, from: number, end: number): number {
  let at = from;
  while (at < end && (bytes[at] as number) <= SPACE) at++;
  return at;
}

function wordEnd(bytes: Buffer, from: number, end: number): number {
  let at = from;
  for (; at < end; at++) {
    const byte = bytes[at] as number;
    if (byte === COMMA || byte === CLOSE_LIST || byte <= SPACE) break;
  }
  return at;
}

export function isNullElement(bytes: Buffer, from: number, end: number): boolean {
  // No other word of JSON begins with an n.
  return end > from && bytes[from] === 0x6e;
}
