import type { Column, RowBlock } from '../domain/row-block.ts';
import type { ByteSink } from './json.ts';

/** Of UTF-8, for each unit of a text. */
const maxBytesPerUnit = 3;
/** For shorter texts too much room is cheaper than to count. */
const shortUnits = 1_024;
/** Twice a large row may be more than the memory has. */
const maxSpareBytes = 256 * 1_024;

/**
 * A block made of another one: its bytes with new values behind them. So a field that stays is two numbers,
 * and nothing that is copied on its own. Call `keep` or `begin` with `end` for each field in turn.
 */
export class BlockWriter implements ByteSink {
  readonly #columns: readonly Column[];
  readonly #given: RowBlock;
  readonly #offsets: Int32Array;
  readonly #lengths: Int32Array;
  #bytes: Buffer;
  #used: number;
  #fields = 0;
  #start = 0;

  constructor(columns: readonly Column[], given: RowBlock) {
    this.#columns = columns;
    this.#given = given;
    this.#offsets = new Int32Array(given.rowCount * columns.length);
    this.#lengths = new Int32Array(given.rowCount * columns.length);
    this.#bytes = given.bytes;
    this.#used = given.bytes.length;
  }

  /** The next field is this one of the given block. */
  keep(field: number): void {
    this.#place(this.#given.offsets[field] ?? 0, this.#given.lengths[field] ?? -1);
  }

  putNull(): void {
    this.#place(0, -1);
  }

  /** The next field is what is written from here to `end`. */
  begin(): void {
    this.#start = this.#used;
  }

  end(): void {
    this.#place(this.#start, this.#used - this.#start);
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

  finish(): RowBlock {
    return {
      columns: this.#columns,
      rowCount: this.#columns.length === 0 ? 0 : this.#fields / this.#columns.length,
      bytes: this.#bytes.subarray(0, this.#used),
      offsets: this.#offsets.subarray(0, this.#fields),
      lengths: this.#lengths.subarray(0, this.#fields),
    };
  }

  #place(offset: number, length: number): void {
    this.#offsets[this.#fields] = offset;
    this.#lengths[this.#fields] = length;
    this.#fields += 1;
  }

  #ensure(more: number): void {
    if (this.#used + more <= this.#bytes.length) return;
    // Not from Node's pool: the bytes are handed to another thread.
    const spare = Math.min(this.#bytes.length >> 1, maxSpareBytes);
    const grown = Buffer.allocUnsafeSlow(this.#used + more + spare);
    this.#bytes.copy(grown, 0, 0, this.#used);
    this.#bytes = grown;
  }
}
