import { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import { physicalType } from './column-types.ts';
import type { ChunkSummary, ColumnWriter, ViewedBlock } from './column-writer.ts';
import { isNullElement, type JsonForm, scanArray } from './json-forms.ts';
import { encodeHybrid, maxHybridBytes } from './levels.ts';
import { encoding, type PageLimits, type RawPage } from './page.ts';

const level = { empty: 1, nullElement: 2, element: 3 } as const;
const definitionBits = 2;
const firstCapacity = 4096;

/** A LIST of three levels, from JSON. A page ends between rows. Elements are PLAIN, without bounds. */
export class ListColumn implements ColumnWriter {
  readonly #column: number;
  readonly #element: JsonForm;
  readonly #limits: PageLimits;
  readonly #values = new ByteWriter(firstCapacity);
  readonly #definitions = new ByteWriter(firstCapacity);
  readonly #repetitions = new ByteWriter(firstCapacity);
  #rows = 0;

  constructor(column: number, element: JsonForm, limits: PageLimits) {
    this.#column = column;
    this.#element = element;
    this.#limits = limits;
  }

  get pageIsFull(): boolean {
    return this.#rows >= this.#limits.rows || this.openBytes >= this.#limits.bytes;
  }

  get openBytes(): number {
    return this.#values.length + this.#definitions.length * 2;
  }

  append({ block }: ViewedBlock, from: number, to: number): number {
    const { bytes, offsets, lengths } = block;
    const width = block.columns.length;
    let field = from * width + this.#column;
    let row = from;
    while (row < to && !this.pageIsFull) {
      const start = offsets[field] as number;
      const length = lengths[field] as number;
      if (length < 0) this.#addLevels(0, 0);
      else this.#addList(bytes, start, start + length);
      this.#rows++;
      field += width;
      row++;
    }
    return row;
  }

  #addList(bytes: Buffer, from: number, end: number): void {
    let repetition = 0;
    const count = scanArray(bytes, from, end, (start, stop) => {
      const isNull = isNullElement(bytes, start, stop);
      this.#addLevels(repetition, isNull ? level.nullElement : level.element);
      if (!isNull) this.#element.put(this.#values, bytes, start, stop);
      repetition = 1;
    });
    if (count === 0) this.#addLevels(0, level.empty);
  }

  #addLevels(repetition: number, definition: number): void {
    this.#repetitions.put(repetition);
    this.#definitions.put(definition);
  }

  cutPage(): RawPage | undefined {
    if (this.#rows === 0) return undefined;
    const count = this.#definitions.length;
    const { physical } = this.#element.type;
    const plain = this.#values.bytes.subarray(0, this.#values.length);
    const repetitions = encodeLevels(this.#repetitions, 1);
    const definitions = encodeLevels(this.#definitions, definitionBits);
    const values = physical === physicalType.boolean ? packBits(plain) : plain;
    const body = Buffer.concat([repetitions, definitions, values]);
    // A huge array is no measure for later pages.
    if (this.#values.bytes.length > this.#limits.bytes * 4) this.#values.take(firstCapacity);
    this.#values.length = 0;
    this.#definitions.length = 0;
    this.#repetitions.length = 0;
    this.#rows = 0;
    return { values: count, encoding: encoding.plain, body, release: () => {} };
  }

  finishChunk(): ChunkSummary {
    return { dictionary: undefined, nullCount: undefined, bounds: undefined, isAscending: false };
  }
}

/** Levels begin with their length. */
function encodeLevels({ bytes, length }: ByteWriter, bitWidth: number): Buffer {
  const target = Buffer.allocUnsafe(4 + maxHybridBytes(length, bitWidth));
  const end = encodeHybrid(target, 4, bytes, length, bitWidth);
  target.writeUInt32LE(end - 4);
  return target.subarray(0, end);
}

function packBits(plain: Buffer): Buffer {
  const packed = Buffer.alloc(Math.ceil(plain.length / 8));
  plain.forEach((bit, at) => {
    packed[at >> 3] = (packed[at >> 3] as number) | (bit << (at & 7));
  });
  return packed;
}
