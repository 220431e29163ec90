import { ByteWriter } from '../../domain/byte-writer.ts';
import type { Column, ColumnType } from '../../domain/row-block.ts';
import { type FieldWriter, fixedForms } from '../text/fixed-values.ts';
import { writeHex } from '../text/format-integers.ts';
import { copyBytes, writeJsonbValue, writeJsonString, writeJsonValue } from '../text/json-text.ts';
import type { RowFormatter } from '../text/row-formatter.ts';

const QUOTE = 0x22;
const FIELD_BYTES = 1 << 12;
const NULL = Buffer.from('null');
const ROW_END = Buffer.from('}\n');
const EMPTY_ROW = Buffer.from('{}\n');

/** One JSON object per line, its keys in the order of the columns. */
export function formatJsonLines(columns: readonly Column[]): RowFormatter {
  const fields = columns.map(({ name, type }, index) => ({
    prefix: Buffer.from(`${index === 0 ? '{' : ','}${JSON.stringify(name)}:`),
    write: fieldWriter(type),
  }));
  const rowEnd = fields.length > 0 ? ROW_END : EMPTY_ROW;
  return {
    writeHeader() {},
    writeRow(out, block, row) {
      const { bytes, offsets, lengths } = block;
      let position = row * fields.length;
      for (const { prefix, write } of fields) {
        out.ensure(prefix.length + NULL.length);
        copyBytes(out, prefix, 0, prefix.length);
        const from = offsets[position] as number;
        const length = lengths[position] as number;
        position += 1;
        if (length >= 0) write(out, bytes, from, from + length);
        else copyBytes(out, NULL, 0, NULL.length);
      }
      out.ensure(rowEnd.length);
      copyBytes(out, rowEnd, 0, rowEnd.length);
    },
  };
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
      return writeFloat(fixedWriter(type));
    default: {
      const write = fixedWriter(type);
      return fixedForms[type]?.isBare ? write : quoted(write);
    }
  }
}

function fixedWriter(type: ColumnType): FieldWriter {
  const form = fixedForms[type];
  if (!form) throw new TypeError(`no text form of ${type}`);
  return form.write;
}

function quoted(write: FieldWriter): FieldWriter {
  return (out, bytes, from, end) => {
    out.put(QUOTE);
    write(out, bytes, from, end);
    out.put(QUOTE);
  };
}

/** JSON has no NaN and no infinity: they become strings, as in to_json. */
function writeFloat(write: FieldWriter): FieldWriter {
  const writeQuoted = quoted(write);
  return (out, bytes, from, end) => {
    const finite = Number.isFinite(
      end - from === 4 ? bytes.readFloatBE(from) : bytes.readDoubleBE(from),
    );
    (finite ? write : writeQuoted)(out, bytes, from, end);
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
