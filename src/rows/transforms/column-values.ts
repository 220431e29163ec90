import type { Column } from '../../foundation/domain/row-block.ts';
import { floorInstant, toTimestamp } from '../../foundation/domain/time.ts';
import type { ChainColumns } from './chain-step.ts';
import { type ByteSink, type Json, jsonNull, kindOf, stringOf, textOf, writeJson } from './json.ts';

type Misfit = string;

type Encode = (value: Json) => Buffer | Misfit;

export function chainColumnsOf(columns: readonly Column[], fixed: readonly string[]): ChainColumns {
  // A JSON column holds every value.
  const encoded = columns.filter(({ type }) => type !== 'json' && type !== 'jsonb');
  const encoders = new Map(encoded.map((column) => [column.name, encoderOf(column)]));
  return {
    names: columns.map(({ name }) => name),
    protected: fixed,
    misfit: (name, value) => {
      const bytes = value === jsonNull ? null : (encoders.get(name)?.(value) ?? null);
      return typeof bytes === 'string' ? bytes : null;
    },
  };
}

export type WriteValue = (sink: ByteSink, value: Json) => void;

/** For values that the column can hold: the chain lets no others through. */
export function writerOf(column: Column): WriteValue {
  if (column.type === 'json') return writeJson;
  if (column.type === 'jsonb') {
    return (sink, value) => {
      sink.copy(jsonbVersion, 0, jsonbVersion.length);
      writeJson(sink, value);
    };
  }
  const encode = encoderOf(column);
  return (sink, value) => {
    const bytes = encode(value);
    if (typeof bytes === 'string') throw new Error(`a step's value does not fit ${column.name}`);
    sink.copy(bytes, 0, bytes.length);
  };
}

function encoderOf({ type, sourceType }: Column): Encode {
  switch (type) {
    case 'json':
    case 'jsonb':
      throw new Error('JSON is written, not encoded');
    case 'text':
      return encodeText;
    case 'as_json':
      return encodeAsJson(sourceType);
    case 'bool':
      return (value) =>
        kindOf(value) === 'boolean'
          ? Buffer.from([textOf(value) === 'true' ? 1 : 0])
          : 'it is a boolean column.';
    case 'int2':
    case 'int4':
    case 'int8':
      return encodeInteger(Number(type.slice(3)));
    case 'float4':
    case 'float8':
      return encodeFloat(type === 'float4' ? 4 : 8);
    case 'uuid':
      return matching(uuid, 'it is a uuid column.', (text) =>
        Buffer.from(text.replaceAll('-', ''), 'hex'),
      );
    case 'bytea':
      return matching(hexBytes, 'bytes are written as \\x and hexadecimal digits.', (text) =>
        Buffer.from(text.slice(2), 'hex'),
      );
    case 'date':
      return matching(date, 'a date is written as 2024-03-01.', (text) => {
        const micros = microsOf(`${text}T00:00:00Z`);
        return micros === null ? null : integerOf(4, micros / dayMicros);
      });
    case 'timestamp':
    case 'timestamptz':
      return encodeTime(type === 'timestamptz');
  }
}

const jsonbVersion = Buffer.from([1]);
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const hexBytes = /^\\x(?:[0-9a-f]{2})*$/i;
const date = /^\d{4}-\d\d-\d\d$/;
const dayMicros = 86_400_000_000n;

/** A file's text may hold neither: PostgreSQL has no NUL, UTF-8 no half of a surrogate pair. */
const unwritable = /\0|\p{Cs}/u;

function encodeText(value: Json): Buffer | Misfit {
  const text = stringOf(value);
  if (text === null) return 'it is a text column.';
  if (unwritable.test(text)) return 'text has no NUL and no half of a surrogate pair.';
  return Buffer.from(text);
}

function encodeAsJson(sourceType: string): Encode {
  const kind = sourceType.endsWith('[]')
    ? 'list'
    : /^numeric\b/.test(sourceType)
      ? 'number'
      : 'string';
  return (value) =>
    kindOf(value) === kind ? Buffer.from(textOf(value)) : `${sourceType} is a JSON ${kind} there.`;
}

function encodeInteger(bits: number): Encode {
  const misfit = `it is an integer column of ${bits} bytes.`;
  return (value) => {
    const text = textOf(value);
    if (!/^-?\d{1,19}$/.test(text)) return misfit;
    const number = BigInt(text);
    return BigInt.asIntN(bits * 8, number) === number ? integerOf(bits, number) : misfit;
  };
}

function integerOf(width: number, number: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(number);
  return bytes.subarray(8 - width);
}

const namedFloats: ReadonlyMap<string, number> = new Map([
  ['"NaN"', Number.NaN],
  ['"Infinity"', Number.POSITIVE_INFINITY],
  ['"-Infinity"', Number.NEGATIVE_INFINITY],
]);

function encodeFloat(size: 4 | 8): Encode {
  return (value) => {
    const text = textOf(value);
    const number = namedFloats.get(text) ?? (kindOf(value) === 'number' ? Number(text) : null);
    if (number === null) return 'it is a number column.';
    const stored = size === 4 ? Math.fround(number) : number;
    if (!Number.isFinite(stored) && !namedFloats.has(text)) return 'the number is too large.';
    const bytes = Buffer.alloc(size);
    if (size === 4) bytes.writeFloatBE(stored);
    else bytes.writeDoubleBE(stored);
    return bytes;
  };
}

function encodeTime(isInstant: boolean): Encode {
  const pattern = isInstant
    ? /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?Z$/
    : /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?$/;
  const example = `a time is written as 2024-03-01T12:00:00.000000${isInstant ? 'Z' : ''}.`;
  return matching(pattern, example, (text) => {
    const micros = microsOf(`${text.replace(' ', 'T').replace(/Z$/, '')}Z`);
    return micros === null ? null : integerOf(8, micros);
  });
}

/** @param encode null for a text of the right form that means nothing, as 2024-02-31 */
function matching(
  pattern: RegExp,
  misfit: Misfit,
  encode: (text: string) => Buffer | null,
): Encode {
  return (value) => {
    const text = stringOf(value);
    return (text !== null && pattern.test(text) ? encode(text) : null) ?? misfit;
  };
}

/** Microseconds since 2000, where PostgreSQL's times count from; null for a day or an hour that is none. */
function microsOf(timestamp: string): bigint | null {
  const seconds = timestamp.slice(0, 19);
  const instant = floorInstant(`${seconds}Z`);
  if (Number.isNaN(instant) || !toTimestamp(instant).startsWith(seconds)) return null;
  const fraction = timestamp.slice(20, -1).padEnd(6, '0');
  return BigInt(instant - year2000) * 1000n + BigInt(fraction);
}

const year2000 = floorInstant('2000-01-01T00:00:00Z');
