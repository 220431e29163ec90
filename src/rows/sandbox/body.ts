import { TextWriter } from '../transforms/text-writer.ts';

const lengthBytes = 4;
const maxSpareBytes = 1_024 ** 2;

/** A message in the making. Its memory is not used again. */
export class Body extends TextWriter {
  /** @param bytes how long it will be, about */
  constructor(bytes: number) {
    super(bytes, 0, maxSpareBytes);
  }

  /** Begins a piece with its length before it. @returns what `close` needs */
  open(): number {
    this.ensure(lengthBytes);
    this.length += lengthBytes;
    return this.length;
  }

  close(start: number): void {
    this.bytes.writeUInt32LE(this.length - start, start - lengthBytes);
  }

  finish(): Buffer {
    return this.bytes.subarray(0, this.length);
  }
}
