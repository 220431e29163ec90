import { viewOf } from '../../../foundation/domain/byte-writer.ts';
import type { RowBlock } from '../../../foundation/domain/row-block.ts';
import type { Bounds } from './bounds.ts';
import type { PageLimits, RawPage, SparePool } from './page.ts';

export interface ViewedBlock {
  readonly block: RowBlock;
  readonly view: DataView;
}

export function viewBlock(block: RowBlock): ViewedBlock {
  return { block, view: viewOf(block.bytes) };
}

export interface ChunkSummary {
  readonly dictionary: RawPage | undefined;
  /** Undefined for lists, whose nulls readers count differently. */
  readonly nullCount: number | undefined;
  /** Undefined if the type has no useful order, or a value is outside of it (NaN). */
  readonly bounds: Bounds | undefined;
  /** True if a column of timestamps has no null and no value before the one in the row above. */
  readonly isAscending: boolean;
}

export interface ColumnParts {
  readonly limits: PageLimits;
  readonly spares: SparePool;
}

export interface ColumnWriter {
  /** From `from` on, at most up to `to`. Returns the row after the last that fits the page. */
  append(rows: ViewedBlock, from: number, to: number): number;
  readonly pageIsFull: boolean;
  readonly openBytes: number;
  cutPage(): RawPage | undefined;
  finishChunk(): ChunkSummary;
}
