/** Numbers of rows: one bit for each, up to the last. */
export class RowBits {
  #bits = new Uint8Array(64);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Each row at most once. */
  add(row: number): void {
    const at = Math.floor(row / 8);
    if (at >= this.#bits.length) {
      const grown = new Uint8Array(Math.max(at + 1, this.#bits.length * 2));
      grown.set(this.#bits);
      this.#bits = grown;
    }
    this.#bits[at] = (this.#bits[at] as number) | (1 << (row % 8));
    this.#count += 1;
  }

  has(row: number): boolean {
    return ((this.#bits[Math.floor(row / 8)] ?? 0) & (1 << (row % 8))) !== 0;
  }
}
