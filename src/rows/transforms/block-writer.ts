import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';
import { TextWriter } from './text-writer.ts';

const maxSpareBytes = 256 * 1_024;

/**
 * A block made of another one: its bytes with new values behind them. So a field that stays is two numbers,
 * and nothing that is copied on its own. Call `keep` or `begin` with `end` for each field in turn.
 */
export class BlockWriter extends TextWriter {
  readonly #columns: readonly Column[];
  readonly #given: RowBlock;
  readonly #offsets: Int32Array;
  readonly #lengths: Int32Array;
  #fields = 0;
  #start = 0;

  constructor(columns: readonly Column[], given: RowBlock) {
    super(given.bytes, given.bytes.length, maxSpareBytes);
    this.#columns = columns;
    this.#given = given;
    this.#offsets = new Int32Array(given.rowCount * columns.length);
    this.#lengths = new Int32Array(given.rowCount * columns.length);
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
    this.#start = this.length;
  }

  end(): void {
    this.#place(this.#start, this.length - this.#start);
  }

  finish(): RowBlock {
    return {
      columns: this.#columns,
      rowCount: this.#columns.length === 0 ? 0 : this.#fields / this.#columns.length,
      bytes: this.bytes.subarray(0, this.length),
      offsets: this.#offsets.subarray(0, this.#fields),
      lengths: this.#lengths.subarray(0, this.#fields),
    };
  }

  #place(offset: number, length: number): void {
    this.#offsets[this.#fields] = offset;
    this.#lengths[this.#fields] = length;
    this.#fields += 1;
  }
}
