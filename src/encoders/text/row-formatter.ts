import type { ByteWriter } from '../../domain/byte-writer.ts';
import type { RowBlock } from '../../domain/row-block.ts';

/** Formats rows into text; keeps no bytes of a block. */
export interface RowFormatter {
  /** Writes what precedes the first row. */
  writeHeader(out: ByteWriter): void;
  writeRow(out: ByteWriter, block: RowBlock, row: number): void;
}
