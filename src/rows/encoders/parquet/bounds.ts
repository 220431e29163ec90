/** The smallest and the largest value of a chunk, PLAIN encoded; a cut text is not exact. */
export interface Bounds {
  readonly min: Uint8Array;
  /** Undefined if no short text is above all values. */
  readonly max: Uint8Array | undefined;
  readonly minIsExact: boolean;
  readonly maxIsExact: boolean;
}

/** Compares two bounds of one type, as `Buffer.compare` does. */
export type Order = (one: Uint8Array, other: Uint8Array) => number;

export function exact(min: Uint8Array, max: Uint8Array): Bounds {
  return { min, max, minIsExact: true, maxIsExact: true };
}

function numericOrder(read: (view: DataView) => number | bigint): Order {
  const decode = (bytes: Uint8Array) =>
    read(new DataView(bytes.buffer, bytes.byteOffset, bytes.length));
  return (one, other) => {
    const [left, right] = [decode(one), decode(other)];
    return left < right ? -1 : left > right ? 1 : 0;
  };
}

/** Compares the bounds of each kind of values. */
export const orders = {
  bool: numericOrder((view) => view.getUint8(0)),
  int32: numericOrder((view) => view.getInt32(0, true)),
  int64: numericOrder((view) => view.getBigInt64(0, true)),
  float: numericOrder((view) => view.getFloat32(0, true)),
  double: numericOrder((view) => view.getFloat64(0, true)),
  /** Big-endian in two's complement, of one width. */
  fixed: ((one, other) => {
    const sign = ((one[0] as number) >> 7) - ((other[0] as number) >> 7);
    return sign === 0 ? Buffer.compare(one, other) : -sign;
  }) as Order,
  bytes: Buffer.compare as Order,
} as const;
