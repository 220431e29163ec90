import { ByteWriter } from '../../../foundation/domain/byte-writer.ts';

/** The engine copies longer values; shorter ones are copied by hand, which is then faster. */
const longCopy = 160;

/** Appends one PLAIN BYTE_ARRAY: its length, little-endian, and its bytes. */
export function putByteArray(
  out: ByteWriter,
  source: Buffer,
  sourceView: DataView,
  from: number,
  length: number,
): void {
  out.ensure(length + 4);
  const at = out.length + 4;
  out.view.setUint32(out.length, length, true);
  copyValue(out.bytes, out.view, at, source, sourceView, from, length);
  out.length = at + length;
}

/** Copies `length` bytes to `at`. The views are of the same memory as the buffers. */
function copyValue(
  target: Buffer,
  targetView: DataView,
  at: number,
  source: Buffer,
  sourceView: DataView,
  from: number,
  length: number,
): void {
  if (length > longCopy) {
    target.set(new Uint8Array(source.buffer, source.byteOffset + from, length), at);
    return;
  }
  let index = 0;
  for (; index + 8 <= length; index += 8) {
    targetView.setInt32(at + index, sourceView.getInt32(from + index, true), true);
    targetView.setInt32(at + index + 4, sourceView.getInt32(from + index + 4, true), true);
  }
  if (index + 4 <= length) {
    targetView.setInt32(at + index, sourceView.getInt32(from + index, true), true);
    index += 4;
  }
  for (; index < length; index++) target[at + index] = source[from + index] as number;
}

/** So many pages may be in flight: a steady run of pages needs no new memory. */
const sparesOfOneSize = 4;

/** Sinks of finished pages, by capacity, to reuse for any column. */
export class SparePool {
  readonly #spares = new Map<number, ByteWriter[]>();

  /** A sink of that capacity, empty except for `start` bytes. */
  take(capacity: number, start: number): ByteWriter {
    const sink = this.#spares.get(capacity)?.pop() ?? new ByteWriter(capacity);
    sink.length = start;
    return sink;
  }

  give(sink: ByteWriter): void {
    const { length } = sink.bytes;
    const spares = this.#spares.get(length) ?? [];
    if (spares.length < sparesOfOneSize) this.#spares.set(length, [...spares, sink]);
  }
}
