import type { InfinityChoice } from '../../foundation/domain/format-settings.ts';
import { type Column, epochDays, type RowBlock } from '../../foundation/domain/row-block.ts';

const maxDate = 0x7fffffff;
const minDate = -0x80000000;
const maxLow = 0xffffffff;

/** Days since 2000 and microseconds of the years 1 to 9999: their first and last moments. */
const firstDay = dayOf('0001-01-01');
const lastDay = dayOf('9999-12-31');
const dayMicros = 86_400_000_000n;
const firstMoment = BigInt(firstDay) * dayMicros;
const lastMoment = BigInt(lastDay + 1) * dayMicros - 1n;

function dayOf(date: string): number {
  return Date.parse(`${date}T00:00:00Z`) / 86_400_000 - epochDays;
}

/** The sign of an infinite value; 0 if it is finite. */
type Sign = -1 | 0 | 1;

/**
 * Gives infinite dates and timestamps another value, so that every format and reader can hold them. Of the
 * columns with such a type only; elements of arrays and bounds of ranges stay as they are.
 */
export class InfiniteValues {
  readonly #choice: InfinityChoice;
  readonly #fields: readonly { readonly index: number; readonly bytes: 4 | 8 }[];

  /** @param keyIndices indices of columns that stay as they are: the key decides which row it is */
  constructor(columns: readonly Column[], keyIndices: readonly number[], choice: InfinityChoice) {
    this.#choice = choice;
    const sized = columns.map(({ type }, index) => ({ index, bytes: bytesOf(type) }));
    this.#fields = sized.flatMap(({ index, bytes }) =>
      choice === 'reject' || bytes === null || keyIndices.includes(index) ? [] : [{ index, bytes }],
    );
  }

  /** Returns the same rows. It may change the block that it gets. */
  replaceIn(block: RowBlock): RowBlock {
    if (this.#fields.length === 0 || block.rowCount === 0) return block;
    const { bytes, offsets, columns, rowCount } = block;
    let { lengths } = block;
    for (const { index, bytes: size } of this.#fields) {
      for (let field = index; field < rowCount * columns.length; field += columns.length) {
        if (lengths[field] !== size) continue;
        const at = offsets[field] as number;
        const sign = size === 4 ? signOfDate(bytes, at) : signOfMoment(bytes, at);
        if (sign === 0) continue;
        if (this.#choice === 'limit') putLimit(bytes, at, size, sign);
        else {
          // The lengths may be another block's too.
          if (lengths === block.lengths) lengths = lengths.slice();
          lengths[field] = -1;
        }
      }
    }
    return lengths === block.lengths ? block : { ...block, lengths };
  }
}

function bytesOf(type: Column['type']): 4 | 8 | null {
  if (type === 'date') return 4;
  return type === 'timestamp' || type === 'timestamptz' ? 8 : null;
}

function signOfDate(bytes: Buffer, at: number): Sign {
  const days = bytes.readInt32BE(at);
  return days === maxDate ? 1 : days === minDate ? -1 : 0;
}

function signOfMoment(bytes: Buffer, at: number): Sign {
  const high = bytes.readInt32BE(at);
  if (high !== maxDate && high !== minDate) return 0;
  const low = bytes.readUInt32BE(at + 4);
  if (high === maxDate) return low === maxLow ? 1 : 0;
  return low === 0 ? -1 : 0;
}

function putLimit(bytes: Buffer, at: number, size: 4 | 8, sign: Sign): void {
  if (size === 4) bytes.writeInt32BE(sign === 1 ? lastDay : firstDay, at);
  else bytes.writeBigInt64BE(sign === 1 ? lastMoment : firstMoment, at);
}
