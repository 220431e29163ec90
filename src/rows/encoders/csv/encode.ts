import type { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import type {
  CsvDelimiter,
  CsvNull,
  FormatSettings,
} from '../../../foundation/domain/format-settings.ts';
import { LINE_FEED, QUOTE } from '../../../foundation/domain/json-bytes.ts';
import type { Column, ColumnType } from '../../../foundation/domain/row-block.ts';
import {
  type FieldWriter,
  maxFixedBytes,
  putFixed,
  type ValueBytes,
} from '../text/fixed-values.ts';
import { writeHex, writeInteger, writeWord } from '../text/format-integers.ts';
import { copyBytes, decodeJsonString } from '../text/json-text.ts';
import { largeRowWriter, type RowParts, writeLongHex, writePieces } from '../text/large-rows.ts';
import type { RowFormatter } from '../text/row-formatter.ts';
import {
  hasSpecial,
  isMistakable,
  mustQuote,
  putUnquoted,
  type Quoting,
  quotingOf,
} from './quoting.ts';

const APOSTROPHE = 0x27;

interface CellStyle extends Quoting {
  /** True if texts that a spreadsheet takes for formulas get an apostrophe in front. */
  readonly guarded: boolean;
}

type CsvOptions = Partial<
  Pick<FormatSettings, 'csvFormulaGuard' | 'csvDelimiter' | 'csvNull' | 'csvBom' | 'csvHeader'>
>;

export const delimiterOf: Readonly<Record<CsvDelimiter, string>> = {
  ...{ comma: ',', semicolon: ';', tab: '\t', pipe: '|' },
};

export const nullTextOf = (choice: CsvNull = 'empty'): string => (choice === 'empty' ? '' : choice);

/** Programs of Windows take it for the sign of UTF-8. */
export const byteOrderMark = Buffer.from('\ufeff');

function styleOf({ csvFormulaGuard = false, csvDelimiter = 'comma', csvNull }: CsvOptions) {
  const delimiter = delimiterOf[csvDelimiter].charCodeAt(0);
  const nullText = Buffer.from(nullTextOf(csvNull));
  return { ...quotingOf(delimiter, nullText), guarded: csvFormulaGuard };
}

/** A spreadsheet takes a cell that begins with one of these for a formula. */
const beginsFormula = new Set([...'=+-@\t\r'].map((char) => char.charCodeAt(0)));

/** Up to this, a value is copied while it is searched for what needs quotes. */
const SHORT_CELL = 256;
/** Room for any value but a long one, and for a comma. */
const SPARE_BYTES = maxFixedBytes + 16;

/** RFC 4180 as PostgreSQL's COPY writes it: LF ends a line, null is empty, an empty string is `""`. */
export function formatCsv(columns: readonly Column[], options: CsvOptions = {}): RowFormatter {
  const [style, width] = [styleOf(options), columns.length];
  const { delimiter, nullText } = style;
  const types = columns.map(({ type }) => type);
  const isInt4 = Uint8Array.from(types, (type) => Number(type === 'int4'));
  const writers = types.map((type) => fieldWriter(type, style));
  return {
    writeHeader(out) {
      if (options.csvBom) for (const byte of byteOrderMark) out.put(byte);
      if (options.csvHeader === false) return;
      columns.forEach(({ name }, index) => {
        if (index > 0) out.put(delimiter);
        const bytes = Buffer.from(name);
        writeCell(out, bytes, 0, bytes.length, style);
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
          if (column > 0) target.setUint8(to++, delimiter);
          if (length < 0) {
            for (const byte of nullText) target.setUint8(to++, byte);
            continue;
          }
          // The most frequent short value: before the search for its type.
          if (length === 4 && isInt4[column] === 1) {
            to = writeInteger(target, to, source.getInt32(from));
            continue;
          }
          if (isShort) {
            const type = types[column] as ColumnType;
            const after = putShort(type, target, to, rows, from, length, style);
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
    writeLargeRow: largeRowWriter(types, writers, partsOf(style)),
  };
}

const partsOf = (style: CellStyle): RowParts => ({
  writeStart(out, column) {
    if (column > 0) out.put(style.delimiter);
  },
  writeNull: (out) => putWord(out, style.nullText),
  writeLong: (out, type, value, from, end) => writeLong(out, type, value, from, end, style),
  writeEnd: (out) => out.put(LINE_FEED),
});

function putWord(out: ByteWriter, word: Buffer): void {
  for (const byte of word) out.put(byte);
}

function* writeLong(
  out: ByteWriter,
  type: ColumnType,
  value: ValueBytes,
  from: number,
  end: number,
  style: CellStyle,
): Generator<void> {
  const { bytes } = value;
  switch (type) {
    case 'text':
      return yield* writeLongCell(out, bytes, from, end, style, style.guarded);
    case 'json':
      return yield* writeLongCell(out, bytes, from, end, style);
    case 'jsonb':
      // The first byte is the version of the binary form.
      return yield* writeLongCell(out, bytes, from + 1, end, style);
    case 'as_json': {
      const text = decodeJsonString(bytes, from, end);
      yield;
      // A number may begin with a minus; only a string can hold a formula.
      const mayBeFormula = style.guarded && bytes[from] === QUOTE;
      return yield* writeLongCell(out, text, 0, text.length, style, mayBeFormula);
    }
    case 'bytea':
      out.ensure(2);
      out.length = writeWord(out.view, out.length, '\\x');
      return yield* writeLongHex(out, bytes, from, end);
    default:
      fieldWriter(type, style)(out, value, from, end);
  }
}

function* writeLongCell(
  out: ByteWriter,
  bytes: Buffer,
  from: number,
  end: number,
  style: CellStyle,
  isGuarded = false,
): Generator<void> {
  let isQuoted = isMistakable(bytes, from, end, style.nullText);
  yield* writePieces(from, end, (start, to) => {
    isQuoted ||= hasSpecial(bytes, start, to, style);
  });
  if (isQuoted) out.put(QUOTE);
  if (isGuarded && isFormula(bytes, from, end)) out.put(APOSTROPHE);
  yield* writePieces(from, end, (start, to) => {
    out.ensure(to - start);
    if (isQuoted) writeDoubled(out, bytes, start, to);
    else copyBytes(out, bytes, start, to);
  });
  if (isQuoted) out.put(QUOTE);
}

/** At most `SHORT_CELL` bytes, for which there is room. @returns its end; `at` if a field writer must do it */
function putShort(
  type: ColumnType,
  target: DataView,
  at: number,
  source: ValueBytes,
  from: number,
  length: number,
  style: CellStyle,
): number {
  switch (type) {
    case 'text':
      return style.guarded ? at : putUnquoted(target, at, source, from, from + length, style);
    case 'as_json': {
      const isString = source.bytes[from] === QUOTE;
      return isString ? at : putUnquoted(target, at, source, from, from + length, style);
    }
    case 'json':
      return putUnquoted(target, at, source, from, from + length, style);
    case 'jsonb':
      return putUnquoted(target, at, source, from + 1, from + length, style);
    case 'bytea':
      return at;
    default:
      return putFixed(type, target, at, source.view, from);
  }
}

function fieldWriter(type: ColumnType, style: CellStyle): FieldWriter {
  const { guarded } = style;
  switch (type) {
    case 'text':
      return (out, { bytes }, from, end) => writeCell(out, bytes, from, end, style, guarded);
    case 'json':
      return (out, { bytes }, from, end) => writeCell(out, bytes, from, end, style);
    case 'jsonb':
      // The first byte is the version of the binary form.
      return (out, { bytes }, from, end) => writeCell(out, bytes, from + 1, end, style);
    case 'as_json':
      return (out, { bytes }, from, end) => {
        const text = decodeJsonString(bytes, from, end);
        // A number may begin with a minus; only a string can hold a formula.
        const mayBeFormula = guarded && bytes[from] === QUOTE;
        writeCell(out, text, 0, text.length, style, mayBeFormula);
      };
    case 'bytea':
      return writeBytea;
    default:
      return (out, { view }, from) => {
        out.ensure(maxFixedBytes);
        out.length = putFixed(type, out.view, out.length, view, from);
      };
  }
}

/** Also with apostrophes before one: the reader must be able to tell it from a guarded one. */
function isFormula(bytes: Buffer, from: number, end: number): boolean {
  let at = from;
  while (bytes[at] === APOSTROPHE && at < end) at += 1;
  return at < end && beginsFormula.has(bytes[at] as number);
}

/** A quote inside is doubled. With a guard an apostrophe goes in front of a formula. */
function writeCell(
  out: ByteWriter,
  bytes: Buffer,
  from: number,
  end: number,
  style: CellStyle,
  isGuarded = false,
): void {
  const isQuoted = mustQuote(bytes, from, end, style);
  if (isQuoted) out.put(QUOTE);
  if (isGuarded && isFormula(bytes, from, end)) out.put(APOSTROPHE);
  if (!isQuoted) {
    out.ensure(end - from);
    copyBytes(out, bytes, from, end);
    return;
  }
  writeDoubled(out, bytes, from, end);
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

/** `\x0aff`: PostgreSQL's hexadecimal form. */
function writeBytea(out: ByteWriter, { bytes }: ValueBytes, from: number, end: number): void {
  out.ensure((end - from) * 2 + 2);
  const at = writeWord(out.view, out.length, '\\x');
  out.length = writeHex(out.view, at, bytes, from, end);
}
