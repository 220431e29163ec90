/**
 * A growing run of bytes to format into. `bytes` and `length` are open so that the formatting loops
 * run without a call per byte: whoever writes calls `ensure` first and moves `length` afterwards.
 */
export class ByteWriter {
  bytes: Buffer;
  length = 0;

  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafeSlow(capacity);
  }

  /** Makes room for `more` bytes behind `length`; `bytes` may be another buffer afterwards. */
  ensure(more: number): void {
    const needed = this.length + more;
    if (needed <= this.bytes.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2));
    this.bytes.copy(grown, 0, 0, this.length);
    this.bytes = grown;
  }

  /** Gives the bytes away and starts anew with a buffer of `capacity`. */
  take(capacity: number): Buffer {
    const taken = this.bytes.subarray(0, this.length);
    this.bytes = Buffer.allocUnsafeSlow(capacity);
    this.length = 0;
    return taken;
  }
}
