/**
 * XXH64 with seed 0, the hash of Parquet's Bloom filters, in halves of 32 bits: bigints are many times slower.
 * Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md#xxh64-algorithm-description
 */

/** The two halves of a number of 64 bits, as int32. */
export interface Halves {
  high: number;
  low: number;
}

/** A factor, with the parts of its lower half. */
interface Factor {
  readonly high: number;
  readonly low: number;
  readonly low0: number;
  readonly low1: number;
}

function factor(high: number, low: number): Factor {
  return { high: high | 0, low: low | 0, low0: low & 0xffff, low1: low >>> 16 };
}

const prime1 = factor(0x9e3779b1, 0x85ebca87);
const prime2 = factor(0xc2b2ae3d, 0x27d4eb4f);
const prime3 = factor(0x165667b1, 0x9e3779f9);
const prime4 = factor(0x85ebca77, 0xc2b2ae63);
const prime5 = factor(0x27d4eb2f, 0x165667c5);

const stripeBytes = 32;
const lanes = Array.from({ length: 4 }, (): Halves => ({ high: 0, low: 0 }));
const [lane1, lane2, lane3, lane4] = lanes as [Halves, Halves, Halves, Halves];
const round: Halves = { high: 0, low: 0 };

/** Writes the hash of `length` bytes at `from` to `out`. */
export function xxh64(view: DataView, from: number, length: number, out: Halves): void {
  const end = from + length;
  let at = from;
  if (length >= stripeBytes) {
    at = addStripes(view, from, end, out);
  } else {
    out.high = prime5.high;
    out.low = prime5.low;
  }
  addHalves(out, 0, length);
  for (; at + 8 <= end; at += 8) {
    mixRound(0, 0, view, at);
    xor(out, round);
    rotate(out, 27);
    multiply(out, prime1);
    addHalves(out, prime4.high, prime4.low);
  }
  if (at + 4 <= end) {
    round.high = 0;
    round.low = view.getInt32(at, true);
    multiply(round, prime1);
    xor(out, round);
    rotate(out, 23);
    multiply(out, prime2);
    addHalves(out, prime3.high, prime3.low);
    at += 4;
  }
  for (; at < end; at++) {
    round.high = 0;
    round.low = view.getUint8(at);
    multiply(round, prime5);
    xor(out, round);
    rotate(out, 11);
    multiply(out, prime1);
  }
  shiftXor(out, 33);
  multiply(out, prime2);
  shiftXor(out, 29);
  multiply(out, prime3);
  shiftXor(out, 32);
}

/** Hashes whole stripes into `out`; returns the end of the last. */
function addStripes(view: DataView, from: number, end: number, out: Halves): number {
  set(lane1, prime1.high, prime1.low);
  addHalves(lane1, prime2.high, prime2.low);
  set(lane2, prime2.high, prime2.low);
  set(lane3, 0, 0);
  set(lane4, 0, 0);
  subtract(lane4, prime1.high, prime1.low);
  let at = from;
  for (; at + stripeBytes <= end; at += stripeBytes) {
    advance(lane1, view, at);
    advance(lane2, view, at + 8);
    advance(lane3, view, at + 16);
    advance(lane4, view, at + 24);
  }
  set(out, 0, 0);
  const bits = [1, 7, 12, 18];
  for (let index = 0; index < 4; index++) {
    const { high, low } = lanes[index] as Halves;
    set(round, high, low);
    rotate(round, bits[index] as number);
    addHalves(out, round.high, round.low);
  }
  for (const { high, low } of lanes) {
    mixLane(high, low);
    xor(out, round);
    multiply(out, prime1);
    addHalves(out, prime4.high, prime4.low);
  }
  return at;
}

function advance(lane: Halves, view: DataView, at: number): void {
  mixRound(lane.high, lane.low, view, at);
  set(lane, round.high, round.low);
}

/** `round` becomes the round of an accumulator and the eight bytes at `at`. */
function mixRound(high: number, low: number, view: DataView, at: number): void {
  set(round, view.getInt32(at + 4, true), view.getInt32(at, true));
  multiply(round, prime2);
  addHalves(round, high, low);
  rotate(round, 31);
  multiply(round, prime1);
}

/** `round` becomes the round of an empty accumulator and a lane. */
function mixLane(high: number, low: number): void {
  set(round, high, low);
  multiply(round, prime2);
  rotate(round, 31);
  multiply(round, prime1);
}

function set(to: Halves, high: number, low: number): void {
  to.high = high;
  to.low = low;
}

function xor(to: Halves, { high, low }: Halves): void {
  to.high ^= high;
  to.low ^= low;
}

function addHalves(to: Halves, high: number, low: number): void {
  const sum = (to.low >>> 0) + (low >>> 0);
  to.low = sum | 0;
  to.high = (to.high + high + (sum > 0xffffffff ? 1 : 0)) | 0;
}

function subtract(from: Halves, high: number, low: number): void {
  const difference = (from.low >>> 0) - (low >>> 0);
  from.low = difference | 0;
  from.high = (from.high - high - (difference < 0 ? 1 : 0)) | 0;
}

/** To the left, by 1 to 31 bits. */
function rotate(value: Halves, bits: number): void {
  const { high, low } = value;
  value.high = (high << bits) | (low >>> (32 - bits));
  value.low = (low << bits) | (high >>> (32 - bits));
}

/** XORs the value with itself, shifted to the right by 29 to 33 bits. */
function shiftXor(value: Halves, bits: number): void {
  const { high, low } = value;
  if (bits >= 32) {
    value.low = low ^ (high >>> (bits - 32));
    return;
  }
  value.high = high ^ (high >>> bits);
  value.low = low ^ ((low >>> bits) | (high << (32 - bits)));
}

/** The lower 64 bits of the product. */
function multiply(value: Halves, by: Factor): void {
  const { high, low } = value;
  const low0 = low & 0xffff;
  const low1 = low >>> 16;
  const middle0 = Math.imul(low0, by.low1) >>> 0;
  const middle1 = Math.imul(low1, by.low0) >>> 0;
  const carry = (Math.imul(low0, by.low0) >>> 16) + (middle0 & 0xffff) + (middle1 & 0xffff);
  const top = Math.imul(low1, by.low1) + (middle0 >>> 16) + (middle1 >>> 16) + (carry >>> 16);
  value.high = (top + Math.imul(high, by.low) + Math.imul(low, by.high)) | 0;
  value.low = Math.imul(low, by.low);
}
