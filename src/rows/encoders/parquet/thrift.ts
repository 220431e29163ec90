/**
 * Of Thrift's compact protocol, what describes a Parquet file: a struct reads like its definition in parquet.thrift. No
 * library supports these few structs. Source:
 * https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
 */

export interface ThriftField {
  readonly id: number;
  readonly type: number;
  readonly value: Uint8Array;
}

const compactType = { true: 1, false: 2, i8: 3, i16: 4, i32: 5, i64: 6, binary: 8, list: 9 };
const structType = 12;

const nothing = new Uint8Array(0);

/** Unsigned LEB128. `value` is a whole number below 2^53, or a bigint. */
export function varint(value: number | bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = BigInt(value);
  while (rest > 0x7fn) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}

function zigzag(value: number): Uint8Array {
  const wide = BigInt(value);
  return varint(wide < 0n ? -wide * 2n - 1n : wide * 2n);
}

const zigzagField =
  (type: number) =>
  (id: number, value: number): ThriftField => {
    return { id, type, value: zigzag(value) };
  };

export const i16 = zigzagField(compactType.i16);
export const i32 = zigzagField(compactType.i32);
/** `value` is a whole number below 2^53: sizes and offsets of one file. */
export const i64 = zigzagField(compactType.i64);

export const i8 = (id: number, value: number): ThriftField => ({
  id,
  type: compactType.i8,
  value: Uint8Array.of(value),
});

export const bool = (id: number, value: boolean): ThriftField => ({
  id,
  type: value ? compactType.true : compactType.false,
  value: nothing,
});

function lengthPrefixed(bytes: Uint8Array): Uint8Array {
  return Buffer.concat([varint(bytes.length), bytes]);
}

export const binary = (id: number, value: Uint8Array | string): ThriftField => ({
  id,
  type: compactType.binary,
  value: lengthPrefixed(typeof value === 'string' ? Buffer.from(value) : value),
});

/** Fields are in ascending order of their ids; an undefined field is omitted. */
export function struct(fields: readonly (ThriftField | undefined)[]): Uint8Array {
  const parts: Uint8Array[] = [];
  let last = 0;
  for (const field of fields) {
    if (field === undefined) continue;
    // Ids in Parquet's structs never differ by more than 15, so the short form is enough.
    parts.push(Uint8Array.of(((field.id - last) << 4) | field.type), field.value);
    last = field.id;
  }
  parts.push(Uint8Array.of(0));
  return Buffer.concat(parts);
}

export const nested = (id: number, fields: readonly (ThriftField | undefined)[]): ThriftField => ({
  id,
  type: structType,
  value: struct(fields),
});

function list(id: number, elementType: number, items: readonly Uint8Array[]): ThriftField {
  const head =
    items.length < 15
      ? Uint8Array.of((items.length << 4) | elementType)
      : Buffer.concat([Uint8Array.of(0xf0 | elementType), varint(items.length)]);
  return { id, type: compactType.list, value: Buffer.concat([head, ...items]) };
}

export const structList = (id: number, items: readonly Uint8Array[]): ThriftField =>
  list(id, structType, items);

export const i32List = (id: number, items: readonly number[]): ThriftField =>
  list(id, compactType.i32, items.map(zigzag));

export const stringList = (id: number, items: readonly string[]): ThriftField =>
  list(
    id,
    compactType.binary,
    items.map((item) => lengthPrefixed(Buffer.from(item))),
  );
