import { ByteWriter } from '../../domain/byte-writer.ts';
import type { Column, ColumnType } from '../../domain/row-block.ts';
import { type FieldWriter, type FixedType, maxFixedBytes, putFixed } from '../text/fixed-values.ts';
import { writeHex } from '../text/format-integers.ts';
import {
  putBytes,
  putPlainString,
  writeJsonbValue,
  writeJsonString,
  writeJsonValue,
} from '../text/json-text.ts';
import type { RowFormatter } from '../text/row-formatter.ts';

const QUOTE = 0x22;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const FIELD_BYTES = 1 << 12;
const NULL = Buffer.from('null');
const ROW_END = Buffer.from('}\n');
const EMPTY_ROW = Buffer.from('{}\n');
/** Up to this, a text is copied while it is searched for what must be escaped. */
const SHORT_TEXT = 256;
/** Room for any value but a long text, with quotes, and for the end of the row. */
const SPARE_BYTES = maxFixedBytes + 16;

/** One JSON object per line, its keys in the order of the columns. */
export function formatJsonLines(columns: readonly Column[]): RowFormatter {
  const width = columns.length;
  const types = columns.map(({ type }) => type);
  const heads = columns.map(({ name }, index) =>
    headOf(`${index === 0 ? '{' : ','}${JSON.stringify(name)}:`),
  );
  const writers = types.map(fieldWriter);
  const rowEnd = width > 0 ? ROW_END : EMPTY_ROW;
  return {
    writeHeader() {},
    // The end of the row is in local variables while nothing else writes: a call per field costs as much as the field.
    writeRow(out, { bytes, offsets, lengths }, row) {
      let target = out.bytes;
      let { view } = out;
      let to = out.length;
      for (let column = 0, field = row * width; column < width; column += 1, field += 1) {
        const { words, length: headBytes } = heads[column] as Head;
        const length = lengths[field] as number;
        const from = offsets[field] as number;
        const room = headBytes + SPARE_BYTES + (length <= SHORT_TEXT ? length : 0);
        if (to + room > target.length) {
          out.length = to;
          out.ensure(room);
          target = out.bytes;
          view = out.view;
        }
        for (let word = 0; word < words.length; word += 1) {
          view.setInt32(to + word * 4, words[word] as number);
        }
        to += headBytes;
        if (length < 0) {
          to = putBytes(target, to, NULL, 0, NULL.length);
          continue;
        }
        if (length <= SHORT_TEXT) {
          const type = types[column] as ColumnType;
          const end = putShort(type, target, to, bytes, from, length);
          if (end > to) {
            to = end;
            continue;
          }
        }
        out.length = to;
        (writers[column] as FieldWriter)(out, bytes, from, from + length);
        target = out.bytes;
        view = out.view;
        to = out.length;
      }
      out.length = to;
      out.ensure(rowEnd.length);
      out.length = putBytes(out.bytes, to, rowEnd, 0, rowEnd.length);
    },
  };
}

/** What precedes a value in its line. */
interface Head {
  readonly length: number;
  /** Its bytes, four at a time, big-endian; what is behind its end is written over. */
  readonly words: Int32Array;
}

function headOf(text: string): Head {
  const bytes = Buffer.from(text);
  const words = new Int32Array(Math.ceil(bytes.length / 4));
  const padded = Buffer.concat([bytes], words.length * 4);
  for (let word = 0; word < words.length; word += 1) words[word] = padded.readInt32BE(word * 4);
  return { length: bytes.length, words };
}

/**
 * Writes a value of at most `SHORT_TEXT` bytes, for which there is room, if it needs no escape.
 *
 * @returns the end of what was written; `at` if it was not, which a field writer then does
 */
function putShort(
  type: ColumnType,
  target: Buffer,
  at: number,
  bytes: Buffer,
  from: number,
  length: number,
): number {
  switch (type) {
    case 'text':
      return putPlainString(target, at, bytes, from, from + length);
    case 'as_json':
    case 'json':
      return putOneLine(target, at, bytes, from, from + length);
    case 'jsonb':
      return putBytes(target, at, bytes, from + 1, from + length);
    case 'int2':
    case 'int4':
    case 'int8':
    case 'bool':
      return putFixed(type, target, at, bytes, from);
    case 'uuid':
    case 'date':
    case 'timestamp':
    case 'timestamptz':
      return putQuoted(type, target, at, bytes, from);
    default:
      return at;
  }
}

/** JSON without a line break; `at` if it has one. */
function putOneLine(target: Buffer, at: number, bytes: Buffer, from: number, end: number): number {
  let to = at;
  for (let index = from; index < end; index += 1) {
    const byte = bytes[index] as number;
    if (byte === LINE_FEED || byte === CARRIAGE_RETURN) return at;
    target[to++] = byte;
  }
  return to;
}

function putQuoted(
  type: FixedType,
  target: Buffer,
  at: number,
  bytes: Buffer,
  from: number,
): number {
  target[at] = QUOTE;
  const end = putFixed(type, target, at + 1, bytes, from);
  target[end] = QUOTE;
  return end + 1;
}

/** The JSON of single fields of a type, as in its lines. Fields that are null have none. */
export function jsonOfField(
  type: ColumnType,
): (bytes: Buffer, from: number, end: number) => string {
  const out = new ByteWriter(FIELD_BYTES);
  const write = fieldWriter(type);
  return (bytes, from, end) => {
    out.length = 0;
    write(out, bytes, from, end);
    const text = out.bytes.toString('utf8', 0, out.length);
    // Memory that a large value has taken is not kept.
    if (out.bytes.length > FIELD_BYTES) out.take(FIELD_BYTES);
    return text;
  };
}

function fieldWriter(type: ColumnType): FieldWriter {
  switch (type) {
    case 'text':
      return writeJsonString;
    case 'jsonb':
      return writeJsonbValue;
    case 'json':
    case 'as_json':
      return writeJsonValue;
    case 'bytea':
      return writeBytea;
    case 'float4':
    case 'float8':
      return writeFloat(type);
    case 'bool':
    case 'int2':
    case 'int4':
    case 'int8':
      return fixedWriter(type);
    default:
      return (out, bytes, from) => {
        out.ensure(maxFixedBytes + 2);
        out.length = putQuoted(type, out.bytes, out.length, bytes, from);
      };
  }
}

function fixedWriter(type: FixedType): FieldWriter {
  return (out, bytes, from) => {
    out.ensure(maxFixedBytes);
    out.length = putFixed(type, out.bytes, out.length, bytes, from);
  };
}

/** JSON has no NaN and no infinity: they become strings, as in to_json. */
function writeFloat(type: 'float4' | 'float8'): FieldWriter {
  return (out, bytes, from, end) => {
    out.ensure(maxFixedBytes + 2);
    const hasNumber = Number.isFinite(
      end - from === 4 ? bytes.readFloatBE(from) : bytes.readDoubleBE(from),
    );
    out.length = (hasNumber ? putFixed : putQuoted)(type, out.bytes, out.length, bytes, from);
  };
}

/** `"\\x0aff"`: PostgreSQL's hexadecimal form as a JSON string. */
function writeBytea(out: ByteWriter, bytes: Buffer, from: number, end: number): void {
  out.ensure((end - from) * 2 + 5);
  const at = out.length + out.bytes.write('"\\\\x', out.length, 'latin1');
  out.length = writeHex(out.bytes, at, bytes, from, end);
  out.bytes[out.length] = QUOTE;
  out.length += 1;
}
