/** Blocks of this size lose little compression and keep every thread of the pool busy. */
export const BLOCK_BYTES = 1 << 20;
/** Node's thread pool has four threads; more blocks in flight would only hold memory. */
const IN_FLIGHT = 4;

export type CompressBlock = (block: Buffer) => Promise<Uint8Array>;

/** In order, though several are compressed at once. `write` waits only while all slots are taken. */
export class ParallelBlocks {
  readonly #compress: CompressBlock;
  readonly #pending: { readonly bytes: number; readonly done: Promise<Uint8Array> }[] = [];
  heldBytes = 0;

  constructor(compress: CompressBlock) {
    this.#compress = compress;
  }

  async write(bytes: Buffer): Promise<Uint8Array[]> {
    const ready: Uint8Array[] = [];
    for (let start = 0; start < bytes.length; start += BLOCK_BYTES) {
      while (this.#pending.length >= IN_FLIGHT) ready.push(await this.#takeFirst());
      const block = bytes.subarray(start, start + BLOCK_BYTES);
      const done = this.#compress(block);
      // The failure is thrown when the block's turn comes; until then it must not count as unhandled.
      done.catch(() => {});
      this.#pending.push({ bytes: block.length, done });
      this.heldBytes += block.length;
    }
    return ready;
  }

  async drain(): Promise<Uint8Array[]> {
    const ready: Uint8Array[] = [];
    while (this.#pending.length > 0) ready.push(await this.#takeFirst());
    return ready;
  }

  async #takeFirst(): Promise<Uint8Array> {
    const first = this.#pending.shift();
    if (!first) throw new RangeError('no block is pending');
    const compressed = await first.done;
    this.heldBytes -= first.bytes;
    return compressed;
  }
}
