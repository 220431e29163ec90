/**
 * Run lengths and bit packing, for definition levels and dictionary indices. Source:
 * https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE
 */

/** A run of this many equal values is written as a run; the format packs bits in groups of 8. */
export const minRun = 8;
const group = minRun;

/** Maximum bytes that `encodeHybrid` writes for `count` values. */
export function maxHybridBytes(count: number, bitWidth: number): number {
  return 8 + Math.ceil(count / group) * (bitWidth + 4);
}

export function bitWidthOf(value: number): number {
  return 32 - Math.clz32(value);
}

/** The first `count` values, from `at` on. Returns the end. `bitWidth` is at most 16. */
export function encodeHybrid(
  target: Uint8Array,
  at: number,
  values: Uint8Array | Uint16Array,
  count: number,
  bitWidth: number,
): number {
  let end = at;
  let index = 0;
  while (index < count) {
    const run = runLength(values, index, count);
    if (run >= group) {
      end = encodeRun(target, end, values[index] as number, run, bitWidth);
      index += run;
    } else {
      let stop = index + group;
      while (stop < count && runLength(values, stop, Math.min(stop + group, count)) < group) {
        stop += group;
      }
      end = putVarint(target, end, ((stop - index) / group) * 2 + 1);
      end = packBits(target, end, values, index, Math.min(stop, count), bitWidth);
      index = stop;
    }
  }
  return end;
}

/** As `encodeHybrid`; `count` is `minRun` at least. */
export function encodeRun(
  target: Uint8Array,
  at: number,
  value: number,
  count: number,
  bitWidth: number,
): number {
  let end = putVarint(target, at, count * 2);
  for (let shift = 0; shift < bitWidth; shift += 8) target[end++] = value >>> shift;
  return end;
}

function runLength(values: Uint8Array | Uint16Array, from: number, to: number): number {
  const value = values[from];
  let index = from + 1;
  while (index < to && values[index] === value) index++;
  return index - from;
}

function putVarint(target: Uint8Array, at: number, value: number): number {
  let end = at;
  let rest = value;
  while (rest > 0x7f) {
    target[end++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  target[end++] = rest;
  return end;
}

/** Packs [from, to), lowest bit first, and fills the last group of 8 with zeros. */
function packBits(
  target: Uint8Array,
  at: number,
  values: Uint8Array | Uint16Array,
  from: number,
  to: number,
  bitWidth: number,
): number {
  let end = at;
  for (let first = from; first < to; first += group) {
    let bits = 0;
    let held = 0;
    for (let index = first; index < first + group; index++) {
      bits |= (index < to ? (values[index] as number) : 0) << held;
      held += bitWidth;
      while (held >= 8) {
        target[end++] = bits;
        bits >>>= 8;
        held -= 8;
      }
    }
  }
  return end;
}
