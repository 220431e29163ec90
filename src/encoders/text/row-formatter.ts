import type { RowBlock } from '../../domain/row-block.ts';
import type { ByteWriter } from '../byte-writer.ts';

/** Formats rows into text; keeps no bytes of a block. */
export interface RowFormatter {
  /** Writes what precedes the first row. */
  writeHeader(out: ByteWriter): void;
  writeRow(out: ByteWriter, block: RowBlock, row: number): void;
}
