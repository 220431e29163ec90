import type { ByteWriter } from '../../domain/byte-writer.ts';
import type { ColumnType } from '../../domain/row-block.ts';
import { float4Text, float8Text } from './format-floats.ts';
import { readInt16, readInt32, readInt64, writeInteger, writeUuid } from './format-integers.ts';
import { writeDate, writeTimestamp } from './format-times.ts';

/** Writes one value that is not null: `bytes[from, end)` is the field. It ensures its own room. */
export type FieldWriter = (out: ByteWriter, bytes: Buffer, from: number, end: number) => void;

/** Maximum text length of these types. */
const MAX_BYTES = 48;

/** How a type is written: bare, or in quotes if the format quotes strings. */
export interface FixedForm {
  readonly isBare: boolean;
  readonly write: FieldWriter;
}

type Format = (out: Buffer, at: number, bytes: Buffer, from: number) => number;

const form = (isBare: boolean, format: Format): FixedForm => ({
  isBare,
  write(out, bytes, from) {
    out.ensure(MAX_BYTES);
    out.length = format(out.bytes, out.length, bytes, from);
  },
});

const writeWord = (out: Buffer, at: number, word: string) => at + out.write(word, at, 'latin1');

/** Types with short text and nothing to escape; the same in every text format. */
export const fixedForms: Partial<Readonly<Record<ColumnType, FixedForm>>> = {
  bool: form(true, (out, at, bytes, from) => writeWord(out, at, bytes[from] ? 'true' : 'false')),
  int2: form(true, (out, at, bytes, from) => writeInteger(out, at, readInt16(bytes, from))),
  int4: form(true, (out, at, bytes, from) => writeInteger(out, at, readInt32(bytes, from))),
  int8: form(true, (out, at, bytes, from) => writeInteger(out, at, readInt64(bytes, from))),
  float4: form(true, (out, at, bytes, from) =>
    writeWord(out, at, float4Text(bytes.readFloatBE(from))),
  ),
  float8: form(true, (out, at, bytes, from) =>
    writeWord(out, at, float8Text(bytes.readDoubleBE(from))),
  ),
  uuid: form(false, writeUuid),
  date: form(false, writeDate),
  timestamp: form(false, (out, at, bytes, from) => writeTimestamp(out, at, bytes, from, false)),
  timestamptz: form(false, (out, at, bytes, from) => writeTimestamp(out, at, bytes, from, true)),
};
