import type { ColumnType } from '../../../foundation/domain/row-block.ts';
import { bool, i8, i32, nested, struct } from './thrift.ts';

export const physicalType = {
  boolean: 0,
  int32: 1,
  int64: 2,
  float: 4,
  double: 5,
  byteArray: 6,
  fixedBytes: 7,
} as const;

export interface ParquetType {
  readonly physical: number;
  readonly width?: number;
  /** parquet.thrift's ConvertedType, for readers that know no logical types. */
  readonly converted?: number;
  readonly logical?: Uint8Array;
  readonly tableType: string;
  /** Digits of a DECIMAL, for readers that know no logical types. */
  readonly decimal?: { readonly precision: number; readonly scale: number };
}

const string: ParquetType = {
  physical: physicalType.byteArray,
  converted: 0,
  logical: struct([nested(1, [])]),
  tableType: 'string',
};

/** Local timestamps carry the old annotation too, as the format's specification asks. */
const timestampMicros = (adjustedToUtc: boolean): ParquetType => ({
  physical: physicalType.int64,
  converted: 10,
  logical: struct([nested(8, [bool(1, adjustedToUtc), nested(2, [nested(2, [])])])]),
  tableType: adjustedToUtc ? 'timestamptz' : 'timestamp',
});

/**
 * uuid is text: Spark refuses the UUID type (apache/spark#55684) and warehouses read it as bare bytes. So is JSON:
 * readers treat the JSON type differently, and those that parse it lose digits.
 */
export const parquetTypes: Readonly<Record<ColumnType, ParquetType>> = {
  bool: { physical: physicalType.boolean, tableType: 'boolean' },
  int2: {
    physical: physicalType.int32,
    converted: 16,
    logical: struct([nested(10, [i8(1, 16), bool(2, true)])]),
    tableType: 'int',
  },
  int4: { physical: physicalType.int32, tableType: 'int' },
  int8: { physical: physicalType.int64, tableType: 'long' },
  float4: { physical: physicalType.float, tableType: 'float' },
  float8: { physical: physicalType.double, tableType: 'double' },
  text: string,
  uuid: string,
  json: string,
  jsonb: string,
  as_json: string,
  date: {
    physical: physicalType.int32,
    converted: 6,
    logical: struct([nested(6, [])]),
    tableType: 'date',
  },
  timestamp: timestampMicros(false),
  timestamptz: timestampMicros(true),
  bytea: { physical: physicalType.byteArray, tableType: 'binary' },
};

/** A time of day without time zone. Local times carry the old annotation too, as the format asks. */
export const timeMicros: ParquetType = {
  physical: physicalType.int64,
  converted: 8,
  logical: struct([nested(7, [bool(1, false), nested(2, [nested(2, [])])])]),
  tableType: 'time',
};

/** INT32 up to 9 digits, INT64 up to 18, else as few bytes as the digits need, at most 16 for 38. */
export function decimalType(precision: number, scale: number): ParquetType {
  const annotations = {
    converted: 5,
    decimal: { precision, scale },
    logical: struct([nested(5, [i32(1, scale), i32(2, precision)])]),
    tableType: `decimal(${precision}, ${scale})`,
  };
  if (precision <= 9) return { physical: physicalType.int32, ...annotations };
  if (precision <= 18) return { physical: physicalType.int64, ...annotations };
  const bits = (10n ** BigInt(precision) - 1n).toString(2).length + 1;
  return { physical: physicalType.fixedBytes, width: Math.ceil(bits / 8), ...annotations };
}
