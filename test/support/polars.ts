import { DataType, tableFromIPC, type Vector } from 'apache-arrow';
import { decimalText } from './parquet-readers.ts';

/** polars; null on a platform that it has no binary for. */
export const polars = await import('nodejs-polars').then(
  (module) => module.default,
  () => null,
);

type Polars = NonNullable<typeof polars>;

/**
 * The columns of a Parquet file as polars reads them: their types as Arrow names them, and the values of
 * row-blocks.ts. Arrow carries the values, since polars gives JavaScript no decimals and no bytes.
 */
export function readWithPolars(
  pl: Polars,
  file: Buffer,
): Record<string, { readonly type: string; readonly values: readonly unknown[] }> {
  const frame = pl.readParquet(file);
  const table = tableFromIPC(frame.writeIPCStream());
  // Arrow gives JavaScript milliseconds of a timestamp.
  const counted = frame.select(
    ...table.schema.fields.map(({ name, type }) => {
      if (DataType.isTimestamp(type)) return pl.col(name).cast(pl.Int64);
      const isList = isListType(type) && DataType.isTimestamp(type.children[0]?.type);
      return isList ? pl.col(name).cast(pl.List(pl.Int64)) : pl.col(name);
    }),
  );
  const read = tableFromIPC(counted.writeIPCStream());
  return Object.fromEntries(
    table.schema.fields.map(({ name, type }, at) => {
      const vector = read.getChildAt(at);
      return [name, { type: String(type), values: vector ? valuesOf(vector) : [] }];
    }),
  );
}

const isListType = (type: DataType) => DataType.isList(type) || DataType.isLargeList(type);

const dayMs = 86_400_000;

function valuesOf(vector: Vector): unknown[] {
  const { type } = vector;
  return Array.from({ length: vector.length }, (_, index) => {
    const value: unknown = vector.get(index);
    if (value === null) return null;
    if (isListType(type)) return valuesOf(value as Vector);
    if (DataType.isDate(type)) return Number(value) / dayMs;
    // polars counts nanoseconds.
    if (DataType.isTime(type)) return (value as bigint) / 1000n;
    if (!DataType.isDecimal(type)) {
      return value instanceof Uint8Array ? Buffer.from(value) : value;
    }
    const words = [...(value as Uint32Array)].reverse();
    const hex = words.map((word) => word.toString(16).padStart(8, '0')).join('');
    return decimalText(BigInt.asIntN(128, BigInt(`0x${hex}`)), type.scale);
  });
}
