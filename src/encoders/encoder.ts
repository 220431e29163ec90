import type { Column, RowBlock } from '../domain/row-block.ts';

export type FileFormat = 'JSONLines' | 'CSV' | 'Parquet';
export type Compression = 'gzip' | 'brotli' | 'zstd' | 'snappy' | 'lz4' | null;

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

export interface EncoderDefinition {
  readonly format: FileFormat;
  /** Without compression suffix: `jsonl`. */
  readonly extension: string;
  readonly contentType: string;
  /** Compressions this format takes, null first where none is allowed. */
  readonly compressions: readonly Compression[];
  open(columns: readonly Column[], compression: Compression): FileEncoder;
}
