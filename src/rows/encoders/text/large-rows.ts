import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import type { ColumnType, RowBlock } from '../../../foundation/domain/row-block.ts';
import type { FieldWriter, ValueBytes } from './fixed-values.ts';
import { writeHex } from './format-integers.ts';
import type { RowFormatter } from './row-formatter.ts';

/** A row with more bytes is written in pieces: it must not keep the process from others, nor be in memory once more. */
const largeRowBytes = 1 << 20;

/** Bytes of a value that are written at once. */
const pieceBytes = 1 << 16;

/** Pieces between two turns of the event loop. */
const piecesPerTurn = 8;

/** Blocks of the usual size have none. */
export function largeRowsOf({ bytes, columns, lengths }: RowBlock): (row: number) => boolean {
  if (bytes.length <= largeRowBytes) return () => false;
  return (row) => {
    let size = 0;
    for (let field = row * columns.length; field < (row + 1) * columns.length; field += 1) {
      size += Math.max(0, lengths[field] as number);
    }
    return size > largeRowBytes;
  };
}

/** Hands over what is in `out` each time that it has `fullBytes`. @param written of `RowFormatter.writeLargeRow` */
export async function writeInTurns(
  written: Generator<void>,
  out: ByteWriter,
  fullBytes: number,
  take: () => Promise<void>,
): Promise<void> {
  let pieces = 0;
  for (const _ of written) {
    pieces += 1;
    if (out.length >= fullBytes) await take();
    if (pieces % piecesPerTurn === 0) await nextTurn();
  }
}

export function* writePieces(
  from: number,
  end: number,
  write: (start: number, to: number) => void,
): Generator<void> {
  for (let start = from; start < end; start += pieceBytes) {
    write(start, Math.min(start + pieceBytes, end));
    yield;
  }
}

export function writeLongHex(
  out: ByteWriter,
  bytes: Buffer,
  from: number,
  end: number,
): Generator<void> {
  return writePieces(from, end, (start, to) => {
    out.ensure((to - start) * 2);
    out.length = writeHex(out.view, out.length, bytes, start, to);
  });
}

export interface RowParts {
  writeStart(out: ByteWriter, column: number): void;
  writeNull(out: ByteWriter): void;
  writeLong(
    out: ByteWriter,
    type: ColumnType,
    value: ValueBytes,
    from: number,
    end: number,
  ): Generator<void>;
  writeEnd(out: ByteWriter): void;
}

export function largeRowWriter(
  types: readonly ColumnType[],
  writers: readonly FieldWriter[],
  parts: RowParts,
): RowFormatter['writeLargeRow'] {
  return function* (out, rows, row) {
    for (const [column, type] of types.entries()) {
      parts.writeStart(out, column);
      const from = rows.offsets[row * types.length + column] as number;
      const length = rows.lengths[row * types.length + column] as number;
      if (length < 0) parts.writeNull(out);
      else if (length > pieceBytes) yield* parts.writeLong(out, type, rows, from, from + length);
      else (writers[column] as FieldWriter)(out, rows, from, from + length);
    }
    parts.writeEnd(out);
  };
}
