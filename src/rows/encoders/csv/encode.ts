import type { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import type { Column, ColumnType } from '../../../foundation/domain/row-block.ts';
import {
  type FieldWriter,
  maxFixedBytes,
  putFixed,
  type ValueBytes,
} from '../text/fixed-values.ts';
import { writeHex, writeInteger, writeWord } from '../text/format-integers.ts';
import { copyBytes, decodeJsonString } from '../text/json-text.ts';
import { putPlainCell } from '../text/plain-text.ts';
import type { RowFormatter } from '../text/row-formatter.ts';

const COMMA = 0x2c;
const QUOTE = 0x22;
const APOSTROPHE = 0x27;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
/** `\.`: PostgreSQL before 18 reads a line of only this, unquoted, as the end of the data. */
const END_MARKER = 0x5c2e;

const PIECE_BYTES = 1 << 15;

const needsQuotes = new Uint8Array(256);
for (const byte of [COMMA, QUOTE, LINE_FEED, CARRIAGE_RETURN]) needsQuotes[byte] = 1;

/** A spreadsheet takes a cell that begins with one of these for a formula. */
const beginsFormula = new Set([...'=+-@\t\r'].map((char) => char.charCodeAt(0)));

/** Up to this, a value is copied while it is searched for what needs quotes. */
const SHORT_CELL = 256;
/** Room for any value but a long one, and for a comma. */
const SPARE_BYTES = maxFixedBytes + 16;

/**
 * RFC 4180 as PostgreSQL's COPY writes it: LF ends a line, null is empty, an empty string is `""`.
 *
 * @param guarded texts that a spreadsheet takes for formulas get an apostrophe in front
 */
export function formatCsv(columns: readonly Column[], guarded = false): RowFormatter {
  const types = columns.map(({ type }) => type);
  const isInt4 = Uint8Array.from(types, (type) => Number(type === 'int4'));
  const width = types.length;
  const writers = types.map((type) => fieldWriter(type, guarded));
  return {
    writeHeader(out) {
      columns.forEach(({ name }, index) => {
        if (index > 0) out.put(COMMA);
        const bytes = Buffer.from(name);
        writeCell(out, bytes, 0, bytes.length);
      });
      out.put(LINE_FEED);
    },
    // The end of the row is in local variables while nothing else writes: a call per field costs as much as the field.
    writeRows(out, rows, first, end, fullBytes) {
      const { view: source, offsets, lengths } = rows;
      let target = out.view;
      let capacity = target.byteLength;
      let to = out.length;
      let row = first;
      let field = row * width;
      do {
        for (let column = 0; column < width; column += 1, field += 1) {
          const from = offsets[field] as number;
          const length = lengths[field] as number;
          const isShort = length <= SHORT_CELL;
          const room = SPARE_BYTES + (isShort ? length : 0);
          if (to + room > capacity) {
            out.length = to;
            out.ensure(room);
            target = out.view;
            capacity = target.byteLength;
          }
          if (column > 0) target.setUint8(to++, COMMA);
          if (length < 0) continue;
          // The most frequent short value: before the search for its type.
          if (length === 4 && isInt4[column] === 1) {
            to = writeInteger(target, to, source.getInt32(from));
            continue;
          }
          if (isShort) {
            const type = types[column] as ColumnType;
            const after = putShort(type, target, to, source, from, length, guarded);
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
        if (to === capacity) {
          out.length = to;
          out.ensure(1);
          target = out.view;
          capacity = target.byteLength;
        }
        target.setUint8(to++, LINE_FEED);
        row += 1;
      } while (row < end && to < fullBytes);
      out.length = to;
      return row;
    },
  };
}

/**
 * Writes a value of at most `SHORT_CELL` bytes, for which there is room, if it needs no quotes.
 *
 * @returns the end of what was written; `at` if it was not, which a field writer then does
 */
function putShort(
  type: ColumnType,
  target: DataView,
  at: number,
  source: DataView,
  from: number,
  length: number,
  guarded: boolean,
): number {
  switch (type) {
    case 'text':
      return guarded ? at : putCell(target, at, source, from, from + length);
    case 'as_json': {
      const isString = source.getUint8(from) === QUOTE;
      return isString ? at : putCell(target, at, source, from, from + length);
    }
    case 'json':
      return putCell(target, at, source, from, from + length);
    case 'jsonb':
      return putCell(target, at, source, from + 1, from + length);
    case 'bytea':
    case 'numeric':
      return at;
    default:
      return putFixed(type, target, at, source, from);
  }
}

function fieldWriter(type: ColumnType, guarded: boolean): FieldWriter {
  switch (type) {
    case 'text':
      return guarded
        ? (out, { bytes }, from, end) => writeGuarded(out, bytes, from, end)
        : (out, { bytes }, from, end) => writeCell(out, bytes, from, end);
    case 'json':
      return (out, { bytes }, from, end) => writeCell(out, bytes, from, end);
    case 'jsonb':
      // The first byte is the version of the binary form.
      return (out, { bytes }, from, end) => writeCell(out, bytes, from + 1, end);
    case 'as_json':
      return (out, { bytes }, from, end) => {
        const text = decodeJsonString(bytes, from, end);
        // A number may begin with a minus; only a string can hold a formula.
        const write = guarded && bytes[from] === QUOTE ? writeGuarded : writeCell;
        write(out, text, 0, text.length);
      };
    case 'bytea':
      return writeBytea;
    case 'numeric':
      throw new TypeError('CSV takes numerics as JSON');
    default:
      return (out, { view }, from) => {
        out.ensure(maxFixedBytes);
        out.length = putFixed(type, out.view, out.length, view, from);
      };
  }
}

/** `putPlainCell` of what does not end the data either. */
function putCell(
  target: DataView,
  at: number,
  source: DataView,
  from: number,
  end: number,
): number {
  const isEnd = end - from === 2 && source.getInt16(from) === END_MARKER;
  return isEnd ? at : putPlainCell(target, at, source, from, end);
}

/** A cell of text. An apostrophe goes in front of a formula. */
function writeGuarded(out: ByteWriter, bytes: Buffer, from: number, end: number): void {
  // Behind apostrophes too: otherwise the reader could not tell such a text from a guarded one.
  let at = from;
  while (bytes[at] === APOSTROPHE && at < end) at += 1;
  if (at === end || !beginsFormula.has(bytes[at] as number)) {
    writeCell(out, bytes, from, end);
    return;
  }
  if (!mustQuote(bytes, from, end)) {
    out.put(APOSTROPHE);
    out.ensure(end - from);
    copyBytes(out, bytes, from, end);
    return;
  }
  out.put(QUOTE);
  out.put(APOSTROPHE);
  writeQuotedRest(out, bytes, from, end);
}

/** A cell of UTF-8 text, quoted if necessary; a quote inside is doubled. */
function writeCell(out: ByteWriter, bytes: Buffer, from: number, end: number): void {
  if (!mustQuote(bytes, from, end)) {
    out.ensure(end - from);
    copyBytes(out, bytes, from, end);
    return;
  }
  out.put(QUOTE);
  writeQuotedRest(out, bytes, from, end);
}

/** What follows the first quote of a cell. */
function writeQuotedRest(out: ByteWriter, bytes: Buffer, from: number, end: number): void {
  // In pieces: room for a cell full of quotes would double a large value's memory.
  for (let start = from; start < end; start += PIECE_BYTES) {
    writeDoubled(out, bytes, start, Math.min(start + PIECE_BYTES, end));
  }
  out.put(QUOTE);
}

function writeDoubled(out: ByteWriter, bytes: Buffer, from: number, end: number): void {
  out.ensure((end - from) * 2);
  const target = out.bytes;
  let to = out.length;
  for (let at = from; at < end; at += 1) {
    const byte = bytes[at] as number;
    target[to] = byte;
    to += 1;
    if (byte === QUOTE) {
      target[to] = QUOTE;
      to += 1;
    }
  }
  out.length = to;
}

function mustQuote(bytes: Buffer, from: number, end: number): boolean {
  if (from === end) return true;
  for (let at = from; at < end; at += 1) {
    if (needsQuotes[bytes[at] as number] === 1) return true;
  }
  return isEndMarker(bytes, from, end);
}

function isEndMarker(bytes: Buffer, from: number, end: number): boolean {
  return end - from === 2 && bytes.readInt16BE(from) === END_MARKER;
}

/** `\x0aff`: PostgreSQL's hexadecimal form. */
function writeBytea(out: ByteWriter, { bytes }: ValueBytes, from: number, end: number): void {
  out.ensure((end - from) * 2 + 2);
  const at = writeWord(out.view, out.length, '\\x');
  out.length = writeHex(out.view, at, bytes, from, end);
}
