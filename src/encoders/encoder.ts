import type { Column, RowBlock } from '../domain/row-block.ts';

/** The name of a compression; null is none. */
export type Compression = string | null;

/** A row that the format cannot hold as it is; `row` and `column` are indices in its block. */
export interface RejectedRow {
  readonly row: number;
  readonly column: number;
  /** For the export's owner, without the value. */
  readonly reason: string;
}

/**
 * Makes the bytes of one file. `write` and `finish` are called in order, never at once; each
 * resolves to the bytes of the file that became ready, in file order. Bytes may be held back to a
 * later call. After `finish` the encoder is spent. Equal blocks give equal bytes.
 */
export interface FileEncoder {
  write(block: RowBlock): Promise<readonly Uint8Array[]>;
  finish(): Promise<readonly Uint8Array[]>;
  /** Bytes that `write` has taken but not yet given back, roughly; decides when a file is split. */
  readonly heldBytes: number;
  /**
   * The rows of the block last given to `write` that are not in the file, by rising row; valid once
   * that call has resolved. Absent: the format holds every row.
   */
  readonly rejected?: readonly RejectedRow[];
}

/** A column that is read back, with the type of the exported rows. */
export type ReadColumn = Pick<Column, 'name' | 'type'>;

/** The values of one row, in the order of the columns asked for; null is null. */
export type ReadRow = readonly (string | null)[];

export interface CompressionFacts {
  /** At the end of the extension: `.gz`; empty if the file is compressed inside. */
  readonly suffix: string;
  /** Bytes that it may hold beside the encoder's own. */
  readonly memoryBytes: number;
}

/**
 * A file format as a described object: the API's choices, the keys' extension, the memory of a run and
 * the reader of `sluice verify` follow from it.
 */
export interface EncoderDefinition {
  readonly format: string;
  /** Without compression suffix: `jsonl`. */
  readonly extension: string;
  readonly contentType: string;
  /** What it takes beside no compression, by name, in the order in which the API names them. */
  readonly compressions: Readonly<Record<string, CompressionFacts>>;
  /** Bytes that an open file may hold. */
  readonly memoryBytes: number;
  open(columns: readonly Column[], compression: Compression): FileEncoder;
  /**
   * Reads columns of a file on local disk, in file order, by other code than that which wrote it. Of
   * the file no more is in memory than a few MiB, a record or a row group's columns.
   */
  read(
    path: string,
    columns: readonly ReadColumn[],
    compression: Compression,
  ): AsyncIterable<ReadRow>;
}
