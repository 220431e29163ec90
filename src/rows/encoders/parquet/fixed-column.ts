import type { ChunkSummary, ColumnParts, ColumnWriter, ViewedBlock } from './column-writer.ts';
import type { FixedValues } from './fixed-values.ts';
import { encoding, OpenPage, type RawPage } from './page.ts';

export class FixedColumn implements ColumnWriter {
  readonly #column: number;
  readonly #values: FixedValues;
  readonly #page: OpenPage;
  #nullCount = 0;

  constructor(column: number, values: FixedValues, { limits, spares }: ColumnParts) {
    this.#column = column;
    this.#values = values;
    this.#page = new OpenPage(limits, spares);
  }

  get pageIsFull(): boolean {
    return this.#page.isFull;
  }

  get openBytes(): number {
    return this.#page.valueBytes;
  }

  append(rows: ViewedBlock, from: number, to: number): number {
    const { columns, lengths } = rows.block;
    const step = columns.length;
    const { width } = this.#values;
    const page = this.#page;
    let row = from;
    while (row < to && !page.isFull) {
      const first = row * step + this.#column;
      const count = Math.min(to - row, page.roomFor(width));
      page.sink.ensure(count * width);
      const before = page.sink.length;
      this.#values.put(page, rows, first, count);
      // Not of booleans, whose values share bytes.
      const hasAll = width > 1 && page.sink.length - before === count * width;
      if (hasAll) page.addPresent(count);
      else page.addRows(lengths, first, step, count);
      row += count;
    }
    return row;
  }

  cutPage(): RawPage | undefined {
    if (this.#page.rows === 0) return undefined;
    this.#nullCount += this.#page.nulls;
    return this.#page.cut(encoding.plain);
  }

  finishChunk(): ChunkSummary {
    const nullCount = this.#nullCount;
    // Read before the bounds are taken, which starts it anew.
    const { isAscending = false } = this.#values;
    const bounds = this.#values.takeBounds();
    this.#nullCount = 0;
    return {
      dictionary: undefined,
      nullCount,
      bounds,
      isAscending: isAscending && bounds !== undefined && nullCount === 0,
    };
  }
}
