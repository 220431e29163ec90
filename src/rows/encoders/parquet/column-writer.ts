import { viewOf } from '../../../foundation/domain/byte-writer.ts';
import type { RowBlock } from '../../../foundation/domain/row-block.ts';
import type { Bounds } from './bounds.ts';
import type { SparePool } from './byte-arrays.ts';
import type { PageLimits, RawPage } from './page.ts';

/** A row block with a view of its bytes, made once per block. */
export interface ViewedBlock {
  readonly block: RowBlock;
  readonly view: DataView;
}

export function viewBlock(block: RowBlock): ViewedBlock {
  return { block, view: viewOf(block.bytes) };
}

/** The summary of a column chunk after its last page was cut. */
export interface ChunkSummary {
  readonly dictionary: RawPage | undefined;
  /** Undefined for lists, whose nulls readers count differently. */
  readonly nullCount: number | undefined;
  /** Undefined if the type has no useful order, or a value is outside of it (NaN). */
  readonly bounds: Bounds | undefined;
  /** True if a column of timestamps has no null and no value before the one in the row above. */
  readonly isAscending: boolean;
}

/** The columns of a file are written with these. */
export interface ColumnParts {
  readonly limits: PageLimits;
  readonly spares: SparePool;
}

/** Turns one column of blocks into pages, one row group after the other. */
export interface ColumnWriter {
  /**
   * Takes rows from `from` on, at most up to `to`, and stops if the page is full. Returns the row after the
   * last it took.
   */
  append(rows: ViewedBlock, from: number, to: number): number;
  readonly pageIsFull: boolean;
  /** Bytes of the open page and the dictionary. */
  readonly openBytes: number;
  /** Closes the open page; undefined if it has no rows. */
  cutPage(): RawPage | undefined;
  /** Ends the row group, after its last page was cut. */
  finishChunk(): ChunkSummary;
}
