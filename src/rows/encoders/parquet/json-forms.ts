import type { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import type { TimeAs } from '../../../foundation/domain/format-settings.ts';
import { QUOTE } from '../../../foundation/domain/json-bytes.ts';
import { fitsDecimal } from '../../../foundation/domain/decimal-columns.ts';
import { copyBytes, decodeJsonString, isEscaped } from '../text/json-text.ts';
import { type ParquetType, parquetTypes } from './column-types.ts';
import { decimalNumber, type JsonNumber, writeInt32, writeInt64 } from './json-numbers.ts';
import { dateNumber, momentNumber, timeNumber } from './json-times.ts';

/** Turns the JSON text of one value into a value of a Parquet column. */
export interface JsonForm {
  readonly type: ParquetType;
  /** Why the type has no such value, without the value; undefined if it has. */
  check(bytes: Buffer, from: number, end: number): string | undefined;
  /** Appends a value that `check` accepts, PLAIN, but a boolean as a byte of its own. */
  put(out: ByteWriter, bytes: Buffer, from: number, end: number): void;
}

const minus = 0x2d;
const zero = 0x30;

const localTime = /^time(\(\d\))? without time zone$/;

/** The number form of a type that COPY sends as JSON; undefined if it is text. */
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

/** The form of the elements of an array type; undefined if the array stays JSON. */
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

/** A whole number of so many bits. */
function integerForm(type: 'int2' | 'int4' | 'int8', bits: number): JsonForm {
  return {
    type: parquetTypes[type],
    check(bytes, from, end) {
      const short = readShort(bytes, from, end);
      if (!Number.isNaN(short) && Math.abs(short) < 2 ** (bits - 1)) return undefined;
      const text = bytes.toString('latin1', from, end);
      const isWhole = /^-?\d{1,19}$/.test(text);
      const fits = isWhole && BigInt.asIntN(bits, BigInt(text)) === BigInt(text);
      return fits ? undefined : `not a whole number of ${bits} bits`;
    },
    put(out, bytes, from, end) {
      const short = readShort(bytes, from, end);
      const value = Number.isNaN(short) ? BigInt(bytes.toString('latin1', from, end)) : short;
      if (bits === 64) writeInt64(out, value);
      else writeInt32(out, value);
    },
  };
}

/** A whole number of few enough digits to be exact; else NaN. */
function readShort(bytes: Buffer, from: number, end: number): number {
  const isNegative = bytes[from] === minus;
  const start = isNegative ? from + 1 : from;
  if (end - start > 15 || end === start) return Number.NaN;
  let value = 0;
  for (let at = start; at < end; at++) {
    const digit = (bytes[at] as number) - zero;
    if (digit < 0 || digit > 9) return Number.NaN;
    value = value * 10 + digit;
  }
  return isNegative ? -value : value;
}

function floatForm(type: 'float4' | 'float8'): JsonForm {
  const read = (bytes: Buffer, from: number, end: number): number =>
    Number(bytes.toString('latin1', from, end).replaceAll('"', ''));
  const form = /^(-?\d[\d.]*([eE][-+]?\d+)?|"(NaN|-?Infinity)")$/;
  return {
    type: parquetTypes[type],
    check: (bytes, from, end) =>
      form.test(bytes.toString('latin1', from, end)) ? undefined : 'not a number',
    put(out, bytes, from, end) {
      out.ensure(8);
      const value = read(bytes, from, end);
      if (type === 'float4') out.view.setFloat32(out.length, value, true);
      else out.view.setFloat64(out.length, value, true);
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

/** Texts are JSON strings; a numeric is a number, or a string if it is not finite. */
const texts = textForm((bytes, from) => bytes[from] === QUOTE);
const numericText = textForm((bytes, from, end) =>
  /^(-?\d[\d.]*([eE][-+]?\d+)?|"(NaN|-?Infinity)")$/.test(bytes.toString('latin1', from, end)),
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

/** A PLAIN BYTE_ARRAY: its length and its bytes. */
function putBytes(out: ByteWriter, bytes: Buffer, from: number, end: number): void {
  out.ensure(end - from + 4);
  out.view.setUint32(out.length, end - from, true);
  out.length += 4;
  copyBytes(out, bytes, from, end);
}

/** By PostgreSQL's name of the element's type, without a length. */
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
