import type { ByteSink } from '../transforms/json.ts';

/** Of UTF-8, for each unit of a text. */
const maxBytesPerUnit = 3;
/** For shorter texts too much room is cheaper than to count. */
const shortUnits = 4_096;
const lengthBytes = 4;
const maxSpareBytes = 1_024 ** 2;

/** A message in the making: texts, and the bytes of rows that need not become text. Its memory is not used again. */
export class Body implements ByteSink {
  #bytes: Buffer;
  #used = 0;

  /** @param bytes how long it will be, about */
  constructor(bytes: number) {
    this.#bytes = Buffer.allocUnsafeSlow(bytes);
  }

  copy(from: Buffer, start: number, end: number): void {
    this.#ensure(end - start);
    from.copy(this.#bytes, this.#used, start, end);
    this.#used += end - start;
  }

  write(text: string): void {
    const isShort = text.length < shortUnits;
    this.#ensure(isShort ? text.length * maxBytesPerUnit : Buffer.byteLength(text));
    this.#used += this.#bytes.write(text, this.#used);
  }

  /** Begins a piece with its length before it. @returns what `close` needs */
  open(): number {
    this.#ensure(lengthBytes);
    this.#used += lengthBytes;
    return this.#used;
  }

  close(start: number): void {
    this.#bytes.writeUInt32LE(this.#used - start, start - lengthBytes);
  }

  finish(): Buffer {
    return this.#bytes.subarray(0, this.#used);
  }

  #ensure(more: number): void {
    if (this.#used + more <= this.#bytes.length) return;
    const spare = Math.min(this.#bytes.length, maxSpareBytes);
    const grown = Buffer.allocUnsafeSlow(this.#used + more + spare);
    this.#bytes.copy(grown, 0, 0, this.#used);
    this.#bytes = grown;
  }
}
