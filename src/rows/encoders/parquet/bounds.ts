import { viewOf } from '../../../foundation/domain/byte-writer.ts';

/** PLAIN encoded; a cut text is not exact. */
export interface Bounds {
  readonly min: Uint8Array;
  /** Undefined if no short text is above all values. */
  readonly max: Uint8Array | undefined;
  readonly minIsExact: boolean;
  readonly maxIsExact: boolean;
}

export function exact(min: Uint8Array, max: Uint8Array): Bounds {
  return { min, max, minIsExact: true, maxIsExact: true };
}

/** Bounds longer than this are cut, so that long texts do not fill the footer. */
const boundBytes = 64;

/** By unsigned bytes: for UTF-8 the order of code points. The first 64 bytes of each count; cutting keeps the order. */
export class TextBounds {
  readonly #min = new Bound();
  readonly #max = new Bound();
  readonly #isText: boolean;
  #isEmpty = true;

  constructor(isText = true) {
    this.#isText = isText;
  }

  /** `length` bytes at `from`; `view` is of the same memory as `bytes`. */
  add(bytes: Buffer, view: DataView, from: number, length: number): void {
    const bounded = Math.min(length, boundBytes);
    const head = headOf(bytes, view, from, bounded);
    const isCut = length > boundBytes;
    if (this.#isEmpty) {
      this.#min.set(bytes, from, bounded, head, isCut);
      this.#max.set(bytes, from, bounded, head, isCut);
      this.#isEmpty = false;
      return;
    }
    const toMin = this.#min.compare(bytes, view, from, bounded, head);
    if (toMin < 0) this.#min.set(bytes, from, bounded, head, isCut);
    // Of texts with the same start the uncut one is the smallest, a cut one the largest.
    else if (toMin === 0) this.#min.isCut &&= isCut;
    const toMax = this.#max.compare(bytes, view, from, bounded, head);
    if (toMax > 0) this.#max.set(bytes, from, bounded, head, isCut);
    else if (toMax === 0) this.#max.isCut ||= isCut;
  }

  take(): Bounds | undefined {
    if (this.#isEmpty) return undefined;
    this.#isEmpty = true;
    const min = this.#min.bytes.subarray(0, this.#min.length);
    const max = this.#max.bytes.subarray(0, this.#max.length);
    const above = () => (this.#isText ? successor(wholeCharacters(max)) : successorOfBytes(max));
    return {
      min: Buffer.from(this.#min.isCut && this.#isText ? wholeCharacters(min) : min),
      max: this.#max.isCut ? above() : Buffer.from(max),
      minIsExact: !this.#min.isCut,
      maxIsExact: !this.#max.isCut,
    };
  }
}

class Bound {
  readonly bytes = Buffer.alloc(boundBytes);
  readonly view = viewOf(this.bytes);
  length = 0;
  /** The first four bytes as a number, which decides most comparisons. */
  head = 0;
  isCut = false;

  compare(bytes: Buffer, view: DataView, from: number, length: number, head: number): number {
    if (head !== this.head) return head - this.head;
    // By hand: most texts differ after a few bytes, and a call into the engine takes as long as 50 of them.
    const own = this.bytes;
    const shared = Math.min(length, this.length);
    let index = 4;
    for (; index + 4 <= shared; index += 4) {
      const difference = view.getUint32(from + index) - this.view.getUint32(index);
      if (difference !== 0) return difference;
    }
    for (; index < shared; index++) {
      const difference = (bytes[from + index] as number) - (own[index] as number);
      if (difference !== 0) return difference;
    }
    return length - this.length;
  }

  set(bytes: Buffer, from: number, length: number, head: number, isCut: boolean): void {
    bytes.copy(this.bytes, 0, from, from + length);
    this.length = length;
    this.head = head;
    this.isCut = isCut;
  }
}

function headOf(bytes: Buffer, view: DataView, from: number, length: number): number {
  if (length >= 4) return view.getUint32(from);
  let head = 0;
  for (let index = 0; index < 4; index++) {
    head = head * 256 + (index < length ? (bytes[from + index] as number) : 0);
  }
  return head;
}

/** A character may be cut in two at the end: readers decode bounds as UTF-8. */
function wholeCharacters(bytes: Buffer): Buffer {
  let last = bytes.length - 1;
  while (last > 0 && ((bytes[last] as number) & 0xc0) === 0x80) last--;
  const lead = bytes[last] as number;
  const width = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return last + width > bytes.length ? bytes.subarray(0, last) : bytes;
}

export function successorOfBytes(bytes: Buffer): Uint8Array | undefined {
  let last = bytes.length - 1;
  while (last >= 0 && bytes[last] === 0xff) last--;
  if (last < 0) return undefined;
  const above = Buffer.from(bytes.subarray(0, last + 1));
  above[last] = (above[last] as number) + 1;
  return above;
}

export function successor(bytes: Buffer): Uint8Array | undefined {
  const characters = Array.from(bytes.toString('utf8'));
  while (characters.length > 0) {
    const code = characters.pop()?.codePointAt(0) ?? 0;
    if (code < 0x10ffff) {
      // Surrogates are not characters: U+E000 follows U+D7FF.
      const next = code === 0xd7ff ? 0xe000 : code + 1;
      return Buffer.from(characters.join('') + String.fromCodePoint(next));
    }
  }
  return undefined;
}
