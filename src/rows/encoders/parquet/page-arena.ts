/** A slab; the first ones are smaller, since most files are small. */
const slabBytes = 1 << 20;
const firstBytes = 1 << 13;
/** A larger page has memory of its own. */
const maxPageBytes = slabBytes / 2;

/**
 * Memory for the compressed pages of one row group after the other. They live too long for V8 to free them soon
 * and are too many to wait for it, so the next group has the memory of the one before, once that was taken.
 */
export class PageArena {
  /** Memory of the group that is filled; the last buffer has room. */
  #filled: Buffer[] = [];
  #used = 0;
  /** Memory of groups that were handed out and may still be read. */
  #given: Buffer[] = [];
  #spare: Buffer[] = [];

  copy(body: Uint8Array): Uint8Array {
    const { length } = body;
    if (length > maxPageBytes) return Buffer.from(body);
    const slab = this.#slabFor(length);
    const start = this.#used;
    slab.set(body, start);
    this.#used = start + length;
    return slab.subarray(start, this.#used);
  }

  #slabFor(length: number): Buffer {
    const last = this.#filled.at(-1);
    if (last && this.#used + length <= last.length) return last;
    const size = last ? Math.min(slabBytes, last.length * 4) : firstBytes;
    const slab = this.#spare.pop() ?? Buffer.allocUnsafeSlow(Math.max(size, length));
    this.#filled.push(slab);
    this.#used = 0;
    return slab;
  }

  /** The group is whole, and its pages are handed out. */
  endGroup(): void {
    this.#given.push(...this.#filled);
    this.#filled = [];
    this.#used = 0;
  }

  /** Call it when the handed-out bytes are no longer read. */
  reuse(): void {
    const whole = this.#given.filter(({ length }) => length === slabBytes);
    this.#spare.push(...whole);
    this.#given = [];
  }
}
