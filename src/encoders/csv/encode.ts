import type { ByteWriter } from '../../domain/byte-writer.ts';
import type { Column, ColumnType } from '../../domain/row-block.ts';
import { type FieldWriter, maxFixedBytes, putFixed } from '../text/fixed-values.ts';
import { writeHex } from '../text/format-integers.ts';
import { copyBytes, decodeJsonString } from '../text/json-text.ts';
import type { RowFormatter } from '../text/row-formatter.ts';

const COMMA = 0x2c;
const QUOTE = 0x22;
const APOSTROPHE = 0x27;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
/** PostgreSQL before 18 reads a line of only this, unquoted, as the end of the data. */
const END_MARKER = Buffer.from('\\.');

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
    writeRow(out, { bytes, offsets, lengths }, row) {
      let target = out.bytes;
      let to = out.length;
      for (let column = 0, field = row * width; column < width; column += 1, field += 1) {
        const from = offsets[field] as number;
        const length = lengths[field] as number;
        const isShort = length <= SHORT_CELL;
        const room = SPARE_BYTES + (isShort ? length : 0);
        if (to + room > target.length) {
          out.length = to;
          out.ensure(room);
          target = out.bytes;
        }
        if (column > 0) target[to++] = COMMA;
        if (length < 0) continue;
        if (isShort) {
          const type = types[column] as ColumnType;
          const end = putShort(type, target, to, bytes, from, length, guarded);
          if (end > to) {
            to = end;
            continue;
          }
        }
        out.length = to;
        (writers[column] as FieldWriter)(out, bytes, from, from + length);
        target = out.bytes;
        to = out.length;
      }
      out.length = to;
      out.put(LINE_FEED);
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
  target: Buffer,
  at: number,
  bytes: Buffer,
  from: number,
  length: number,
  guarded: boolean,
): number {
  switch (type) {
    case 'text':
      return guarded ? at : putPlainCell(target, at, bytes, from, from + length);
    case 'as_json':
      return bytes[from] === QUOTE ? at : putPlainCell(target, at, bytes, from, from + length);
    case 'json':
      return putPlainCell(target, at, bytes, from, from + length);
    case 'jsonb':
      return putPlainCell(target, at, bytes, from + 1, from + length);
    case 'bytea':
      return at;
    default:
      return putFixed(type, target, at, bytes, from);
  }
}

function fieldWriter(type: ColumnType, guarded: boolean): FieldWriter {
  switch (type) {
    case 'text':
      return guarded ? writeGuarded : writeCell;
    case 'json':
      return writeCell;
    case 'jsonb':
      // The first byte is the version of the binary form.
      return (out, bytes, from, end) => writeCell(out, bytes, from + 1, end);
    case 'as_json':
      return (out, bytes, from, end) => {
        const text = decodeJsonString(bytes, from, end);
        // A number may begin with a minus; only a string can hold a formula.
        const write = guarded && bytes[from] === QUOTE ? writeGuarded : writeCell;
        write(out, text, 0, text.length);
      };
    case 'bytea':
      return writeBytea;
    default:
      return (out, bytes, from) => {
        out.ensure(maxFixedBytes);
        out.length = putFixed(type, out.bytes, out.length, bytes, from);
      };
  }
}

/**
 * A cell without quotes, for which there is room.
 *
 * @returns the end of what was written; `at` if the cell needs quotes
 */
function putPlainCell(
  target: Buffer,
  at: number,
  bytes: Buffer,
  from: number,
  end: number,
): number {
  let to = at;
  for (let index = from; index < end; index += 1) {
    const byte = bytes[index] as number;
    if (needsQuotes[byte] === 1) return at;
    target[to++] = byte;
  }
  return isEndMarker(bytes, from, end) ? at : to;
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
  return end - from === END_MARKER.length && END_MARKER.compare(bytes, from, end) === 0;
}

/** `\x0aff`: PostgreSQL's hexadecimal form. */
function writeBytea(out: ByteWriter, bytes: Buffer, from: number, end: number): void {
  out.ensure((end - from) * 2 + 2);
  const at = out.length + out.bytes.write('\\x', out.length, 'latin1');
  out.length = writeHex(out.bytes, at, bytes, from, end);
}
