import type { PageLimits } from './page.ts';

/** When pages and row groups end. Sizes in bytes; `raw` before compression. */
export interface ParquetSizes {
  readonly page: PageLimits;
  /** A row group ends at the first checkpoint at which it reaches one of these. */
  readonly groupRawBytes: number;
  readonly groupHeldBytes: number;
  /** Maximum rows of a group; undefined: any number. */
  readonly groupRows?: number;
  readonly checkpointBytes: number;
}

const mebibyte = 1024 * 1024;

/** Readers skip by row group (DuckDB) or by page (Arrow, Spark). DuckDB's own groups have 122,880 rows. */
export const prunedRows = 2 ** 17;

/**
 * Row groups of 128 MiB raw, or what fits into 16 MiB of memory once compressed, of 131,072 rows
 * at most. Pages of 1 MiB or 20,000 rows; smaller if there are many columns, since each column holds an open page.
 */
export function defaultSizes(columnCount: number): ParquetSizes {
  const share = 1 / Math.max(1, columnCount);
  return {
    page: {
      bytes: Math.min(mebibyte, Math.max(64 * 1024, Math.floor(24 * mebibyte * share))),
      rows: Math.min(20_000, Math.max(1000, Math.floor(2_000_000 * share))),
    },
    groupRawBytes: 128 * mebibyte,
    groupHeldBytes: 16 * mebibyte,
    checkpointBytes: 4 * mebibyte,
    groupRows: prunedRows,
  };
}
