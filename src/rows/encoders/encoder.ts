import type { ColumnMetrics } from '../../foundation/domain/column-metrics.ts';
import type { FormatSettings } from '../../foundation/domain/format-settings.ts';
import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';
import type { TableField } from '../../foundation/domain/table-field.ts';
import type { DataInterval } from '../../foundation/domain/time.ts';

export type Compression = string | null;

/** A row that the format cannot represent; `row` and `column` are indices in its block. */
export interface RejectedRow {
  readonly row: number;
  readonly column: number;
  /** For the export's owner, without the value. */
  readonly reason: string;
}

/**
 * `write` and `finish` are called in order, never concurrently; each resolves to the bytes that became ready, in file
 * order. Nothing may be called after `finish`. Equal blocks give equal bytes.
 */
export interface FileEncoder {
  write(block: RowBlock): Promise<readonly Uint8Array[]>;
  finish(): Promise<readonly Uint8Array[]>;
  /** All bytes that it has resolved to were taken: it may use their memory again. Nothing has to call it. */
  release?(): void;
  /** Roughly the bytes that `write` has taken but not returned yet; decides when a file is split. */
  readonly heldBytes: number;
  /** Rows of the last block that the file has taken, at least one. If there are more, it is full. Undefined: all rows. */
  readonly taken?: number | undefined;
  /** Rows of the last block that are not in the file, ascending; valid once `write` has resolved. Undefined: none. */
  readonly rejected?: readonly RejectedRow[];
  /** Metrics of a file of a table, valid once `finish` has resolved. */
  readonly columnMetrics?: readonly ColumnMetrics[];
}

/** Whose rows a file has. Nothing here may differ between two runs of an interval. */
export interface FileOrigin {
  readonly exportId: string;
  readonly interval: DataInterval;
}

/** Settings that change what is written; absent ones have their oldest value. */
export interface FormatOptions extends Partial<FormatSettings> {
  /** See FileEncoder's `taken`; null or absent: the file takes every row. */
  readonly maxBytes?: number | null;
  readonly origin?: FileOrigin;
  /** To read a file that does not name its columns: all of them, in order. */
  readonly schema?: readonly { readonly name: string }[] | undefined;
}

/** A column that is read back, with the type of the exported rows. */
export type ReadColumn = Pick<Column, 'name' | 'type'> & Partial<Pick<Column, 'sourceType'>>;

/** In the order of the requested columns. Undefined: a step rejected the row, and the file has only its key. */
export type ReadRow = readonly (string | null | undefined)[];

export interface CompressionFacts {
  /** The end of the extension: `.gz`; empty if the file is compressed inside. */
  readonly suffix: string;
  /** Bytes that it may hold besides the encoder's own. */
  readonly memoryBytes: number;
}

/** The API's choices, the keys' extension, the memory of a run and the reader of `sluice verify` follow from it. */
export interface EncoderDefinition {
  readonly format: string;
  readonly extension: string;
  readonly contentType: string;
  /** Its compressions by name, besides none, in the order of the API. */
  readonly compressions: Readonly<Record<string, CompressionFacts>>;
  readonly memoryBytes: number;
  open(columns: readonly Column[], compression: Compression, options?: FormatOptions): FileEncoder;
  /** The columns of a table of such files, if the format can be one's. */
  readonly tableFields?: (
    columns: readonly Column[],
    options: FormatOptions,
  ) => readonly TableField[];
  /**
   * In file order, with other code than the writer's. Holds a few MiB, a record, or a row group's columns. Throws if the
   * file does not have a column.
   */
  read(
    path: string,
    columns: readonly ReadColumn[],
    compression: Compression,
    options?: FormatOptions,
  ): AsyncIterable<ReadRow>;
  /** All other values, or records of a text format, stay as they are. Holds as much memory as `read` and an open file. */
  without(
    path: string,
    isDropped: IsDropped,
    compression: Compression,
    options?: FormatOptions,
  ): RemainingFile;
}

/** Says of each row whether it goes; asked in file order, with the number of the row from 0. */
export type IsDropped = (row: number) => boolean;

export interface RemainingFile {
  /** The memory of a chunk may be used again once the next one is asked for. */
  readonly bytes: AsyncIterable<Uint8Array>;
  /** The same metrics as an encoder's, valid once `bytes` has ended. */
  readonly columnMetrics?: readonly ColumnMetrics[];
}
