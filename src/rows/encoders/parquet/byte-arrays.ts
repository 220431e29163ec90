import { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import { putBytes } from '../text/plain-text.ts';

/** The engine copies longer values. */
const longCopy = 160;

/** Appends one PLAIN BYTE_ARRAY: its length, little-endian, and its bytes. The view is of the same memory as the source. */
export function putByteArray(
  out: ByteWriter,
  source: Buffer,
  sourceView: DataView,
  from: number,
  length: number,
): void {
  out.ensure(length + 4);
  out.view.setUint32(out.length, length, true);
  const at = out.length + 4;
  if (length > longCopy) source.copy(out.bytes, at, from, from + length);
  else putBytes(out.view, at, sourceView, from, from + length);
  out.length = at + length;
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
