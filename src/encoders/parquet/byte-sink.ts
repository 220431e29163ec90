/** Values longer than this are copied by the engine; shorter ones by hand, which is then faster. */
const longCopy = 160;

/** A byte buffer that grows, with a view of the same memory. `end` is the end of what was written. */
export class ByteSink {
  bytes: Buffer;
  view: DataView;
  end: number;

  constructor(capacity: number, start: number) {
    // Not from Node's pool: a page is handed to another thread.
    this.bytes = Buffer.allocUnsafeSlow(capacity);
    this.view = viewOf(this.bytes);
    this.end = start;
  }

  /** Makes room for `count` bytes after `end`. */
  reserve(count: number): void {
    const needed = this.end + count;
    if (needed <= this.bytes.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2));
    this.bytes.copy(grown, 0, 0, this.end);
    this.bytes = grown;
    this.view = viewOf(grown);
  }

  /** Appends one PLAIN BYTE_ARRAY: its length, little-endian, and its bytes. */
  putByteArray(source: Buffer, sourceView: DataView, from: number, length: number): void {
    this.reserve(length + 4);
    const at = this.end + 4;
    this.view.setUint32(this.end, length, true);
    if (length > longCopy) {
      this.bytes.set(new Uint8Array(source.buffer, source.byteOffset + from, length), at);
    } else copyShort(this.bytes, this.view, at, source, sourceView, from, length);
    this.end = at + length;
  }
}

/** As many as pages may be in flight: a steady run of pages needs no new memory. */
const sparesOfOneSize = 4;

/** Sinks whose pages are done, by capacity, for the next pages of any column. */
export class SparePool {
  readonly #spares = new Map<number, ByteSink[]>();

  /** A sink of that capacity, empty but for `start` bytes. */
  take(capacity: number, start: number): ByteSink {
    const spare = this.#spares.get(capacity)?.pop();
    if (spare === undefined) return new ByteSink(capacity, start);
    spare.end = start;
    return spare;
  }

  give(sink: ByteSink): void {
    const { length } = sink.bytes;
    const spares = this.#spares.get(length) ?? [];
    if (spares.length < sparesOfOneSize) this.#spares.set(length, [...spares, sink]);
  }
}

export function viewOf(bytes: Buffer): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}

function copyShort(
  target: Buffer,
  targetView: DataView,
  at: number,
  source: Buffer,
  sourceView: DataView,
  from: number,
  length: number,
): void {
  let index = 0;
  for (; index + 8 <= length; index += 8) {
    targetView.setInt32(at + index, sourceView.getInt32(from + index, true), true);
    targetView.setInt32(at + index + 4, sourceView.getInt32(from + index + 4, true), true);
  }
  for (; index < length; index++) target[at + index] = source[from + index] as number;
}
