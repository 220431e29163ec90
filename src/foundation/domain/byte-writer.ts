/** A larger buffer grows by a quarter: twice a large row may be more than the memory has. */
const smallBytes = 1 << 23;
/** Room for small fields after a large one. */
const spareBytes = 1 << 12;

/** A buffer that grows. Loops run without a call per byte: call `ensure` first, then write `bytes` and advance `length`. */
export class ByteWriter {
  bytes: Buffer;
  view: DataView;
  length: number;
  readonly #maxSpareBytes: number;

  /** @param room bytes of the first buffer, or a buffer whose first `length` bytes are kept @param maxSpareBytes reserved at most */
  constructor(room: number | Buffer, length = 0, maxSpareBytes = Number.POSITIVE_INFINITY) {
    // Not from Node's pool: the bytes are handed to another thread.
    this.bytes = typeof room === 'number' ? Buffer.allocUnsafeSlow(room) : room;
    this.view = viewOf(this.bytes);
    this.length = length;
    this.#maxSpareBytes = maxSpareBytes;
  }

  /** Makes room for `more` bytes after `length`; `bytes` may be another buffer afterwards. */
  ensure(more: number): void {
    const needed = this.length + more;
    if (needed <= this.bytes.length) return;
    const { length } = this.bytes;
    const growth = length < smallBytes ? length : length / 4;
    const size = Math.max(needed + spareBytes, Math.trunc(length + growth));
    const grown = Buffer.allocUnsafeSlow(Math.min(size, needed + this.#maxSpareBytes));
    this.bytes.copy(grown, 0, 0, this.length);
    this.bytes = grown;
    this.view = viewOf(grown);
  }

  put(byte: number): void {
    this.ensure(1);
    this.bytes[this.length] = byte;
    this.length += 1;
  }

  /** Hands over the bytes and starts again with a buffer of `capacity`. */
  take(capacity: number): Buffer {
    const taken = this.bytes.subarray(0, this.length);
    this.bytes = Buffer.allocUnsafeSlow(capacity);
    this.view = viewOf(this.bytes);
    this.length = 0;
    return taken;
  }
}

export function viewOf(bytes: Buffer): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}
