import { type ByteWriter, viewOf } from '../../../foundation/domain/byte-writer.ts';
import type { RowBlock } from '../../../foundation/domain/row-block.ts';

export interface ViewedRows extends RowBlock {
  readonly view: DataView;
}

export function viewRows(block: RowBlock): ViewedRows {
  return { ...block, view: viewOf(block.bytes) };
}

/** Keeps no bytes of a block. */
export interface RowFormatter {
  writeHeader(out: ByteWriter): void;
  /** From `first` to before `end`, or until `out` has `fullBytes`. @returns the row after the last one */
  writeRows(
    out: ByteWriter,
    rows: ViewedRows,
    first: number,
    end: number,
    fullBytes: number,
  ): number;
  /** Writes one row of any size, and stops after each piece: what is in `out` may be taken then. */
  writeLargeRow(out: ByteWriter, rows: ViewedRows, row: number): Generator<void>;
}
