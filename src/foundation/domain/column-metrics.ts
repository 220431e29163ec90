/** A table's facts about a column of one file, so that readers skip the file. */
export interface ColumnMetrics {
  readonly id: number;
  /** Compressed, with page headers. */
  readonly bytes: number;
  /** Nulls included. */
  readonly values: number;
  /** Null if they are not counted. */
  readonly nulls: number | null;
  /** No value is below, in Iceberg's binary form; null: not known. NaN and null are no values. `upper`: none is above. */
  readonly lower: Uint8Array | null;
  readonly upper: Uint8Array | null;
}
