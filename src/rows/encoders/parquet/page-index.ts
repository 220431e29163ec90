import type { Bounds, Order } from './bounds.ts';
import { binaryList, boolList, i32, i64, i64List, struct, structList } from './thrift.ts';

/** A data page in its file. */
export interface PageEntry {
  /** Where its header begins. */
  readonly offset: number;
  /** With its header. */
  readonly bytes: number;
  /** The page's first row, counted from the row group's. */
  readonly firstRow: number;
  readonly nulls: number;
  readonly hasValues: boolean;
  readonly bounds: Bounds | undefined;
}

/** The index of a chunk's pages, encoded at once: the parts of it would take far more memory. */
export interface PageIndex {
  /** Undefined if a page's bounds are not known. */
  readonly columns: Uint8Array | undefined;
  readonly offsets: Uint8Array;
}

/** parquet.thrift's BoundaryOrder. */
const boundaryOrder = { unordered: 0, ascending: 1, descending: 2 } as const;

/** Undefined for a single page: the index would repeat the chunk's metadata. */
export function indexPages(
  pages: readonly PageEntry[],
  order: Order | undefined,
): PageIndex | undefined {
  if (pages.length < 2) return undefined;
  return { columns: order && columnIndex(pages, order), offsets: offsetIndex(pages) };
}

/** parquet.thrift's ColumnIndex. */
function columnIndex(pages: readonly PageEntry[], order: Order): Uint8Array | undefined {
  const bounded: { min: Uint8Array; max: Uint8Array }[] = [];
  for (const { bounds } of pages) {
    // The format leaves the bounds of a page of nulls empty, and some readers fail at that.
    if (bounds?.max === undefined) return undefined;
    bounded.push({ min: bounds.min, max: bounds.max });
  }
  return struct([
    boolList(
      1,
      pages.map((page) => !page.hasValues),
    ),
    binaryList(
      2,
      bounded.map(({ min }) => min),
    ),
    binaryList(
      3,
      bounded.map(({ max }) => max),
    ),
    i32(4, orderOf(bounded, order)),
    i64List(
      5,
      pages.map((page) => page.nulls),
    ),
  ]);
}

function orderOf(pages: readonly { min: Uint8Array; max: Uint8Array }[], order: Order): number {
  const steps = pages.slice(1).flatMap(({ min, max }, index) => {
    const before = pages[index] as (typeof pages)[number];
    return [order(before.min, min), order(before.max, max)];
  });
  if (steps.every((step) => step <= 0)) return boundaryOrder.ascending;
  return steps.every((step) => step >= 0) ? boundaryOrder.descending : boundaryOrder.unordered;
}

/** parquet.thrift's OffsetIndex. */
function offsetIndex(pages: readonly PageEntry[]): Uint8Array {
  return struct([
    structList(
      1,
      pages.map(({ offset, bytes, firstRow }) =>
        struct([i64(1, offset), i32(2, bytes), i64(3, firstRow)]),
      ),
    ),
  ]);
}
