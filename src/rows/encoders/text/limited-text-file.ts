import { ByteWriter, viewOf } from '../../../foundation/domain/byte-writer.ts';
import type { RowBlock } from '../../../foundation/domain/row-block.ts';
import type { StreamCodec } from '../codecs/codec.ts';
import type { FileEncoder } from '../encoder.ts';
import { largeRowsOf, writeInTurns } from './large-rows.ts';
import { type RowFormatter, type ViewedRows, viewRows } from './row-formatter.ts';

/** A chunk has at most a twelfth of the file, so that the last one leaves less than a tenth empty. */
const chunkShare = 1 / 12;
const maxChunkBytes = 1 << 20;

/** Maximum bytes after compression, with a share of the file's head and end. */
const worstCase = (bytes: number) => bytes + Math.ceil(bytes / 128) + 512;

/**
 * A text file with a maximum of bytes, compressed. It ends before a chunk that might not fit, so only a
 * single row that is larger makes it exceed the limit. Which rows it takes depends on the rows alone: a
 * decision counts compressed bytes only after it has waited for all of them.
 */
export class LimitedTextFile implements FileEncoder {
  taken = 0;
  readonly heldBytes = 0;
  readonly #formatter: RowFormatter;
  readonly #codec: StreamCodec;
  readonly #maxBytes: number;
  readonly #chunkBytes: number;
  readonly #out: ByteWriter;
  /** True if room was found for the chunk in `#out`. */
  #hasReserve = true;
  /** True if there are rows in `#out`, or in the file. */
  #hasRows = false;
  /** Bytes that the codec has returned. */
  #returned = 0;
  /** Bytes that were returned before the last flush: the same at every run. */
  #known = 0;
  /** Bytes given to the codec since then. */
  #since = 0;
  #ready: Uint8Array[] = [];

  constructor(formatter: RowFormatter, codec: StreamCodec, maxBytes: number) {
    this.#formatter = formatter;
    this.#codec = codec;
    this.#maxBytes = maxBytes;
    this.#chunkBytes = Math.min(maxChunkBytes, Math.floor(maxBytes * chunkShare));
    this.#out = new ByteWriter(this.#chunkBytes);
    formatter.writeHeader(this.#out);
  }

  async write(block: RowBlock): Promise<readonly Uint8Array[]> {
    this.taken = 0;
    const rows = viewRows(block);
    const isLarge = largeRowsOf(block);
    while (this.taken < block.rowCount) {
      if (isLarge(this.taken)) {
        if (!(await this.#takeLargeRow(rows))) break;
        continue;
      }
      const before = this.#out.length;
      this.#formatter.writeRows(this.#out, rows, this.taken, this.taken + 1, 0);
      const isChunkFull = this.#out.length > this.#chunkBytes;
      if ((isChunkFull || !this.#hasReserve) && !(await this.#startChunk(before))) break;
      this.#hasRows = true;
      this.taken += 1;
      if (this.#out.length > this.#chunkBytes) await this.#giveLargeRow();
    }
    return this.#takeReady();
  }

  async finish(): Promise<readonly Uint8Array[]> {
    if (this.#out.length > 0) await this.#give(this.#out.take(0));
    this.#ready.push(...(await this.#codec.finish()));
    return this.#takeReady();
  }

  /**
   * Gives the codec what was before the last row, which begins the next chunk.
   *
   * @returns false if there is no room for that; then the row is not in the file
   */
  async #startChunk(rowStart: number): Promise<boolean> {
    if (rowStart > 0) {
      const whole = this.#out.take(this.#chunkBytes);
      const row = whole.subarray(rowStart);
      const head = whole.subarray(0, rowStart);
      if (row.length > this.#chunkBytes) {
        // A copy of the smaller part: the codec may keep the head's memory for long.
        await this.#give(Buffer.from(new Uint8Array(head).buffer));
        whole.copyWithin(0, rowStart);
        this.#out.bytes = whole;
        this.#out.view = viewOf(whole);
        this.#out.length = row.length;
      } else {
        await this.#give(head);
        this.#out.ensure(row.length);
        row.copy(this.#out.bytes);
        this.#out.length = row.length;
      }
    }
    const bytes = Math.max(this.#out.length, this.#chunkBytes);
    this.#hasReserve = !this.#hasRows || (await this.#hasRoom(bytes));
    if (!this.#hasReserve) this.#out.length = 0;
    return this.#hasReserve;
  }

  /** At once, so that no second large row is held beside it. */
  async #giveLargeRow(): Promise<void> {
    await this.#give(this.#out.take(this.#chunkBytes));
    this.#hasReserve = false;
  }

  /** @returns false if there is no room for it; then it is not in the file */
  async #takeLargeRow(rows: ViewedRows): Promise<boolean> {
    if (this.#out.length > 0) await this.#give(this.#out.take(this.#chunkBytes));
    const pieces: Buffer[] = [];
    const out = new ByteWriter(maxChunkBytes);
    let bytes = 0;
    const take = async () => {
      bytes += out.length;
      pieces.push(out.take(maxChunkBytes));
    };
    await writeInTurns(
      this.#formatter.writeLargeRow(out, rows, this.taken),
      out,
      maxChunkBytes,
      take,
    );
    await take();
    this.#hasReserve = !this.#hasRows || (await this.#hasRoom(bytes));
    if (!this.#hasReserve) return false;
    // None is held longer than it must.
    for (let piece = pieces.shift(); piece; piece = pieces.shift()) await this.#give(piece);
    this.#hasReserve = false;
    this.#hasRows = true;
    this.taken += 1;
    return true;
  }

  async #hasRoom(bytes: number): Promise<boolean> {
    if (worstCase(this.#known + this.#since + bytes) <= this.#maxBytes) return true;
    this.#keep(await this.#codec.flush());
    this.#known = this.#returned;
    this.#since = 0;
    return this.#known + worstCase(bytes) <= this.#maxBytes;
  }

  async #give(bytes: Buffer): Promise<void> {
    this.#since += bytes.length;
    this.#keep(await this.#codec.write(bytes));
  }

  #keep(chunks: readonly Uint8Array[]): void {
    for (const chunk of chunks) this.#returned += chunk.length;
    this.#ready.push(...chunks);
  }

  #takeReady(): readonly Uint8Array[] {
    const ready = this.#ready;
    this.#ready = [];
    return ready;
  }
}
