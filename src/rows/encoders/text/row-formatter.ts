import { type ByteWriter, viewOf } from '../../../foundation/domain/byte-writer.ts';
import type { RowBlock } from '../../../foundation/domain/row-block.ts';

/** A row block with a view of its bytes. */
export interface ViewedRows extends RowBlock {
  readonly view: DataView;
}

export function viewRows(block: RowBlock): ViewedRows {
  return { ...block, view: viewOf(block.bytes) };
}

/** Formats rows into text; keeps no bytes of a block. */
export interface RowFormatter {
  /** Writes what precedes the first row. */
  writeHeader(out: ByteWriter): void;
  /**
   * Writes the row `first` and those after it, to the one before `end` or the one with which `out` has `fullBytes`.
   *
   * @returns the row after the last one
   */
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
