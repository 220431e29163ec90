import type { ByteWriter } from '../../../foundation/domain/byte-writer.ts';

/**
 * DELTA_BINARY_PACKED: differences, packed in blocks of 128 with the bits that the largest of 32 needs.
 * Source: https://parquet.apache.org/docs/file-format/data-pages/encodings/#DELTAENC
 */
const blockValues = 128;
const miniblocks = 4;
const miniblockValues = blockValues / miniblocks;

const word = 0x1_0000_0000;
const wordBits = 32;

/** The differences of a block, less the smallest. */
const deltas = new Float64Array(blockValues);

/**
 * Appends `count` whole numbers. Their differences must be exact, so each is below 2^51 in size; for INT32
 * `bits` is 32 and the differences fit too.
 *
 * @returns false if a difference does not fit
 */
export function putDeltas(
  out: ByteWriter,
  values: Float64Array,
  count: number,
  bits: 32 | 64,
): boolean {
  out.ensure(40);
  putVarint(out, blockValues);
  putVarint(out, miniblocks);
  putVarint(out, count);
  putZigzag(out, count === 0 ? 0 : (values[0] as number));
  for (let from = 1; from < count; from += blockValues) {
    const size = Math.min(blockValues, count - from);
    let min = Number.POSITIVE_INFINITY;
    let max = Number.NEGATIVE_INFINITY;
    for (let index = 0; index < size; index++) {
      const delta = (values[from + index] as number) - (values[from + index - 1] as number);
      deltas[index] = delta;
      if (delta < min) min = delta;
      if (delta > max) max = delta;
    }
    if (bits === 32 && (min < -word / 2 || max >= word / 2)) return false;
    putZigzag(out, min);
    putBlock(out, size, min);
  }
  return true;
}

function putBlock(out: ByteWriter, size: number, min: number): void {
  const widthsAt = out.length;
  // Room for the widths, the values and the next minimum.
  out.ensure(miniblocks + blockValues * 8 + 10);
  out.length += miniblocks;
  for (let mini = 0; mini < miniblocks; mini++) {
    const from = mini * miniblockValues;
    const to = Math.min(size, from + miniblockValues);
    let highest = 0;
    for (let index = from; index < to; index++) {
      const above = (deltas[index] as number) - min;
      deltas[index] = above;
      if (above > highest) highest = above;
    }
    const width = widthOf(highest);
    out.bytes[widthsAt + mini] = width;
    if (from >= size || width === 0) continue;
    // The last of a page is filled with zeros.
    for (let index = Math.max(from, to); index < from + miniblockValues; index++) deltas[index] = 0;
    if (width <= wordBits) packNarrow(out, from, width);
    else packWide(out, from, width);
  }
}

function widthOf(value: number): number {
  const high = Math.floor(value / word);
  return high === 0 ? 32 - Math.clz32(value) : 64 - Math.clz32(high);
}

/** Packs values of 32 bits or fewer. 32 values fill whole words of four bytes. */
function packNarrow(out: ByteWriter, from: number, width: number): void {
  const { view } = out;
  let at = out.length;
  let held = 0;
  let bits = 0;
  for (let index = from; index < from + miniblockValues; index++) {
    const value = (deltas[index] as number) | 0;
    held |= value << bits;
    bits += width;
    if (bits >= wordBits) {
      view.setInt32(at, held, true);
      at += 4;
      bits -= wordBits;
      held = bits === 0 ? 0 : value >>> (width - bits);
    }
  }
  out.length = at;
}

/** Packs values of more bits: the lower 32 of each value, then the others. */
function packWide(out: ByteWriter, from: number, width: number): void {
  const { view } = out;
  const highWidth = width - wordBits;
  let at = out.length;
  let held = 0;
  let bits = 0;
  for (let index = from; index < from + miniblockValues; index++) {
    const value = deltas[index] as number;
    const high = Math.floor(value / word);
    const low = (value - high * word) | 0;
    view.setInt32(at, held | (low << bits), true);
    at += 4;
    held = bits === 0 ? 0 : low >>> (wordBits - bits);
    held |= high << bits;
    bits += highWidth;
    if (bits >= wordBits) {
      view.setInt32(at, held, true);
      at += 4;
      bits -= wordBits;
      held = bits === 0 ? 0 : high >>> (highWidth - bits);
    }
  }
  out.length = at;
}

/** `value` is below 2^53. */
function putVarint(out: ByteWriter, value: number): void {
  let rest = value;
  while (rest > 0x7f) {
    const high = Math.floor(rest / 128);
    out.bytes[out.length++] = (rest - high * 128) | 0x80;
    rest = high;
  }
  out.bytes[out.length++] = rest;
}

function putZigzag(out: ByteWriter, value: number): void {
  putVarint(out, value < 0 ? -value * 2 - 1 : value * 2);
}
