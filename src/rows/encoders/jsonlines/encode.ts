import { ByteWriter, viewOf } from '../../../foundation/domain/byte-writer.ts';
import {
  CLOSE_OBJECT,
  LINE_FEED,
  OPEN_OBJECT,
  QUOTE,
} from '../../../foundation/domain/json-bytes.ts';
import type { Column, ColumnType } from '../../../foundation/domain/row-block.ts';
import {
  type FieldWriter,
  type FixedType,
  maxFixedBytes,
  putFixed,
  type ValueBytes,
} from '../text/fixed-values.ts';
import { writeHex, writeInteger, writeWord } from '../text/format-integers.ts';
import {
  copyBytes,
  writeJsonbValue,
  writeJsonCharacters,
  writeJsonString,
  writeJsonValue,
} from '../text/json-text.ts';
import { largeRowWriter, type RowParts, writeLongHex, writePieces } from '../text/large-rows.ts';
import { putBytes, putOneLine, putPlainString } from '../text/plain-text.ts';
import type { RowFormatter } from '../text/row-formatter.ts';

const FIELD_BYTES = 1 << 12;
const NULL = 0x6e756c6c;
/** Before the hexadecimal digits of a bytea. */
const BYTEA_START = '"\\\\x';
/** A row without columns has these bytes too. */
const ROW_END_BYTES = 3;
/** Up to this, a text is copied while it is searched for what must be escaped. */
const SHORT_TEXT = 256;
/** Room for any value but a long text, with quotes, and for the end of the row. */
const SPARE_BYTES = maxFixedBytes + 16;

export function formatJsonLines(columns: readonly Column[]): RowFormatter {
  const width = columns.length;
  const types = columns.map(({ type }) => type);
  const writers = types.map(fieldWriter);
  const isInt4 = Uint8Array.from(types, (type) => Number(type === 'int4'));
  const heads = headsOf(columns);
  const { words, ends, lengths: headLengths } = wordsOf(heads);
  return {
    writeHeader() {},
    // The end of the row is in local variables while nothing else writes: a call per field costs as much as the field.
    writeRows(out, rows, first, end, fullBytes) {
      const { view: source, offsets, lengths } = rows;
      let target = out.view;
      let capacity = target.byteLength;
      let to = out.length;
      let row = first;
      let field = row * width;
      do {
        let word = 0;
        for (let column = 0; column < width; column += 1, field += 1) {
          const headBytes = headLengths[column] as number;
          const length = lengths[field] as number;
          const from = offsets[field] as number;
          const room = headBytes + SPARE_BYTES + (length <= SHORT_TEXT ? length : 0);
          if (to + room > capacity) {
            out.length = to;
            out.ensure(room);
            target = out.view;
            capacity = target.byteLength;
          }
          const headEnd = ends[column] as number;
          for (let at = to; word < headEnd; word += 1, at += 4) {
            target.setInt32(at, words[word] as number);
          }
          to += headBytes;
          if (length < 0) {
            target.setInt32(to, NULL);
            to += 4;
            continue;
          }
          // The most frequent short value: before the search for its type.
          if (length === 4 && isInt4[column] === 1) {
            to = writeInteger(target, to, source.getInt32(from));
            continue;
          }
          if (length <= SHORT_TEXT) {
            const after = putShort(types[column] as ColumnType, target, to, source, from, length);
            if (after > to) {
              to = after;
              continue;
            }
          }
          out.length = to;
          (writers[column] as FieldWriter)(out, rows, from, from + length);
          target = out.view;
          capacity = target.byteLength;
          to = out.length;
        }
        if (to + ROW_END_BYTES > capacity) {
          out.length = to;
          out.ensure(ROW_END_BYTES);
          target = out.view;
          capacity = target.byteLength;
        }
        if (width === 0) target.setUint8(to++, OPEN_OBJECT);
        target.setUint8(to++, CLOSE_OBJECT);
        target.setUint8(to++, LINE_FEED);
        row += 1;
      } while (row < end && to < fullBytes);
      out.length = to;
      return row;
    },
    writeLargeRow: largeRowWriter(types, writers, partsOf(heads)),
  };
}

const partsOf = (heads: readonly Buffer[]): RowParts => ({
  writeStart(out, column) {
    const head = heads[column] as Buffer;
    out.ensure(head.length + SPARE_BYTES);
    copyBytes(out, head, 0, head.length);
  },
  writeNull(out) {
    out.length = writeWord(out.view, out.length, 'null');
  },
  writeLong,
  writeEnd(out) {
    if (heads.length === 0) out.put(OPEN_OBJECT);
    out.put(CLOSE_OBJECT);
    out.put(LINE_FEED);
  },
});

function* writeLong(
  out: ByteWriter,
  type: ColumnType,
  value: ValueBytes,
  from: number,
  end: number,
): Generator<void> {
  const { bytes } = value;
  switch (type) {
    case 'text':
      out.put(QUOTE);
      yield* writePieces(from, end, (start, to) => writeJsonCharacters(out, bytes, start, to));
      out.put(QUOTE);
      return;
    case 'bytea':
      out.ensure(SPARE_BYTES);
      out.length = writeWord(out.view, out.length, BYTEA_START);
      yield* writeLongHex(out, bytes, from, end);
      out.put(QUOTE);
      return;
    case 'json':
    case 'jsonb':
    case 'as_json':
      // The first byte of jsonb is the version of the binary form.
      return yield* writePieces(type === 'jsonb' ? from + 1 : from, end, (start, to) =>
        writeJsonValue(out, bytes, start, to),
      );
    default:
      fieldWriter(type)(out, value, from, end);
  }
}

interface Heads {
  /** Bytes of all heads, four at a time, big-endian; what is behind the end of each is written over. */
  readonly words: Int32Array;
  readonly ends: Int32Array;
  readonly lengths: Int32Array;
}

const headsOf = (columns: readonly Column[]): readonly Buffer[] =>
  columns.map(({ name }, index) =>
    Buffer.from(`${index === 0 ? '{' : ','}${JSON.stringify(name)}:`),
  );

function wordsOf(heads: readonly Buffer[]): Heads {
  const words = heads.map((bytes) => {
    const count = Math.ceil(bytes.length / 4);
    const padded = Buffer.concat([bytes], count * 4);
    return Array.from({ length: count }, (_, word) => padded.readInt32BE(word * 4));
  });
  let end = 0;
  const ends = words.map(({ length }) => {
    end += length;
    return end;
  });
  return {
    words: Int32Array.from(words.flat()),
    ends: Int32Array.from(ends),
    lengths: Int32Array.from(heads, ({ length }) => length),
  };
}

/** At most `SHORT_TEXT` bytes, for which there is room. @returns its end; `at` if a field writer must do it */
function putShort(
  type: ColumnType,
  target: DataView,
  at: number,
  source: DataView,
  from: number,
  length: number,
): number {
  switch (type) {
    case 'text':
      return putPlainString(target, at, source, from, from + length);
    case 'as_json':
    case 'json':
      return putOneLine(target, at, source, from, from + length);
    case 'timestamptz':
    case 'timestamp':
    case 'date':
    case 'uuid':
      return putQuoted(type, target, at, source, from);
    case 'int2':
    case 'int4':
    case 'int8':
    case 'bool':
      return putFixed(type, target, at, source, from);
    case 'float8':
      return Number.isFinite(source.getFloat64(from))
        ? putFixed(type, target, at, source, from)
        : at;
    case 'float4':
      return Number.isFinite(source.getFloat32(from))
        ? putFixed(type, target, at, source, from)
        : at;
    case 'jsonb':
      // The first byte is the version of the binary form.
      return putBytes(target, at, source, from + 1, from + length);
    default:
      return at;
  }
}

function putQuoted(
  type: FixedType,
  target: DataView,
  at: number,
  source: DataView,
  from: number,
): number {
  target.setUint8(at, QUOTE);
  const end = putFixed(type, target, at + 1, source, from);
  target.setUint8(end, QUOTE);
  return end + 1;
}

export function jsonOfField(
  type: ColumnType,
): (bytes: Buffer, from: number, end: number) => string {
  const out = new ByteWriter(FIELD_BYTES);
  const write = fieldWriter(type);
  const needsView = !bytesTypes.has(type);
  return (bytes, from, end) => {
    out.length = 0;
    write(out, { bytes, view: needsView ? viewOf(bytes) : out.view }, from, end);
    const text = out.bytes.toString('utf8', 0, out.length);
    // Memory that a large value has taken is not kept.
    if (out.bytes.length > FIELD_BYTES) out.take(FIELD_BYTES);
    return text;
  };
}

/** Types whose writers read no view: to make one takes longer than a short value. */
const bytesTypes: ReadonlySet<ColumnType> = new Set([
  ...(['text', 'json', 'jsonb', 'as_json', 'bytea'] as const),
]);

function fieldWriter(type: ColumnType): FieldWriter {
  switch (type) {
    case 'text':
      return (out, { bytes }, from, end) => writeJsonString(out, bytes, from, end);
    case 'jsonb':
      return (out, { bytes }, from, end) => writeJsonbValue(out, bytes, from, end);
    case 'json':
    case 'as_json':
      return (out, { bytes }, from, end) => writeJsonValue(out, bytes, from, end);
    case 'bytea':
      return writeBytea;
    default:
      return (out, { view }, from, end) => {
        out.ensure(maxFixedBytes + 2);
        const after = putShort(type, out.view, out.length, view, from, end - from);
        // JSON has no NaN and no infinity: they become strings, as in to_json.
        out.length = after > out.length ? after : putQuoted(type, out.view, out.length, view, from);
      };
  }
}

/** `"\\x0aff"`: PostgreSQL's hexadecimal form as a JSON string. */
function writeBytea(out: ByteWriter, { bytes }: ValueBytes, from: number, end: number): void {
  out.ensure((end - from) * 2 + 5);
  const at = writeWord(out.view, out.length, BYTEA_START);
  out.length = writeHex(out.view, at, bytes, from, end);
  out.bytes[out.length] = QUOTE;
  out.length += 1;
}
