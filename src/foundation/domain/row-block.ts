/** Rows flow from source to encoder as COPY-binary bytes with positions of fields: no object and no string per row. */

/**
 * The layout of a field's bytes (PostgreSQL's binary send format, big-endian):
 * bool 1 byte; int2/int4/int8, float4/float8; text UTF-8; uuid 16 bytes; json UTF-8; jsonb one
 * version byte (1) then UTF-8; date int32 days since 2000-01-01; timestamp and timestamptz int64
 * microseconds since 2000-01-01 (min/max int64 = -infinity/infinity); bytea raw.
 * `as_json`: any other type; the bytes are a JSON value in UTF-8, as `to_json(column)::text` prints it.
 */
export type ColumnType =
  | 'bool'
  | 'int2'
  | 'int4'
  | 'int8'
  | 'float4'
  | 'float8'
  | 'text'
  | 'uuid'
  | 'json'
  | 'jsonb'
  | 'date'
  | 'timestamp'
  | 'timestamptz'
  | 'bytea'
  | 'as_json';

export interface Column {
  /** The name in the exported file. */
  readonly name: string;
  readonly type: ColumnType;
  /** PostgreSQL's name of the type, for schemas and previews (`numeric(10,2)`, `text[]`). */
  readonly sourceType: string;
}

export interface RowBlock {
  readonly columns: readonly Column[];
  readonly rowCount: number;
  readonly bytes: Buffer;
  /** Start of field (row, column) in `bytes`, at index `row * columns.length + column`. */
  readonly offsets: Int32Array;
  /** Length in bytes of the same field; -1 is null. */
  readonly lengths: Int32Array;
}

/** The rows of a block from one on, up to another one; the bytes are shared. */
export function rowsOf(block: RowBlock, from: number, to: number = block.rowCount): RowBlock {
  const { length } = block.columns;
  const [start, end] = [from * length, to * length];
  const [offsets, lengths] = [
    block.offsets.subarray(start, end),
    block.lengths.subarray(start, end),
  ];
  return { ...block, rowCount: to - from, offsets, lengths };
}

export function copyBlock({ columns, rowCount, bytes, offsets, lengths }: RowBlock): RowBlock {
  const own = { bytes: Buffer.from(bytes), offsets: offsets.slice(), lengths: lengths.slice() };
  return { columns, rowCount, ...own };
}

/** Days from 1970-01-01 to 2000-01-01, where PostgreSQL's dates and times count from. */
export const epochDays = 10_957;

/** The text of an `as_json` value: the content of a JSON string, else the JSON; null for null. */
export function textOfJson(json: string): string | null {
  if (json === 'null') return null;
  return json.startsWith('"') ? String(JSON.parse(json)) : json;
}
