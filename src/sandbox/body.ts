import { GrowingBytes } from '../transforms/growing-bytes.ts';

const firstBytes = 256 * 1_024;
const maxSpareBytes = 1_024 ** 2;

/** A message in the making. */
export class Body extends GrowingBytes {
  constructor() {
    super(Buffer.allocUnsafeSlow(firstBytes), 0, maxSpareBytes);
  }

  finish(): Buffer {
    return this.bytes.subarray(0, this.used);
  }
}
