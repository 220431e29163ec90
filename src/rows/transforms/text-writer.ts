import { ByteWriter } from '../../foundation/domain/byte-writer.ts';
import type { ByteSink } from './json.ts';

/** A unit of a text has at most this many bytes in UTF-8. */
const maxBytesPerUnit = 3;
/** For shorter texts too much room is cheaper than to count. */
const shortUnits = 1_024;

export class TextWriter extends ByteWriter implements ByteSink {
  copy(from: Buffer, start: number, end: number): void {
    this.ensure(end - start);
    from.copy(this.bytes, this.length, start, end);
    this.length += end - start;
  }

  write(text: string): void {
    const isShort = text.length < shortUnits;
    this.ensure(isShort ? text.length * maxBytesPerUnit : Buffer.byteLength(text));
    this.length += this.bytes.write(text, this.length);
  }
}
