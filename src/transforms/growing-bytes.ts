import type { ByteSink } from './json.ts';

/** Of UTF-8, for each unit of a text. */
const maxBytesPerUnit = 3;
/** For shorter texts too much room is cheaper than to count. */
const shortUnits = 1_024;

/** Bytes in the making: texts, and bytes of rows that need not become text. */
export class GrowingBytes implements ByteSink {
  protected bytes: Buffer;
  protected used: number;
  readonly #maxSpareBytes: number;

  /**
   * @param bytes the first `used` of them are kept
   * @param maxSpareBytes what it reserves at most beyond what is needed: twice a large row may be more than
   *   the memory has
   */
  constructor(bytes: Buffer, used: number, maxSpareBytes: number) {
    this.bytes = bytes;
    this.used = used;
    this.#maxSpareBytes = maxSpareBytes;
  }

  copy(from: Buffer, start: number, end: number): void {
    this.ensure(end - start);
    from.copy(this.bytes, this.used, start, end);
    this.used += end - start;
  }

  write(text: string): void {
    const isShort = text.length < shortUnits;
    this.ensure(isShort ? text.length * maxBytesPerUnit : Buffer.byteLength(text));
    this.used += this.bytes.write(text, this.used);
  }

  protected ensure(more: number): void {
    if (this.used + more <= this.bytes.length) return;
    // Not from Node's pool: the bytes are handed to another thread.
    const spare = Math.min(this.bytes.length >> 1, this.#maxSpareBytes);
    const grown = Buffer.allocUnsafeSlow(this.used + more + spare);
    this.bytes.copy(grown, 0, 0, this.used);
    this.bytes = grown;
  }
}
