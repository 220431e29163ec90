import type { Column, ColumnType } from '../../../foundation/domain/row-block.ts';
import type { SentColumn } from '../../query/select.ts';

/** Types of keys whose order is that of their bytes, read as whole numbers. */
const tieKeyTypes = ['int2', 'int4', 'int8', 'uuid'] as const;

export type TieKeyType = (typeof tieKeyTypes)[number];

/** Which fields of a row give its place. A field's number counts those of the columns, then the hidden ones. */
export interface TieFields {
  /** Rows come sorted by this one: a date or a timestamp. */
  readonly moment: number;
  readonly keys: readonly { readonly field: number; readonly type: TieKeyType }[];
}

/** Types of at most 16 bytes, as they come: a block has many rows of these. */
const shortTypes: ReadonlySet<ColumnType> = new Set([
  ...(['bool', 'int2', 'int4', 'int8', 'float4', 'float8'] as const),
  ...(['uuid', 'date', 'timestamp', 'timestamptz'] as const),
]);

/** Types whose equal values have equal bytes. */
const momentTypes: ReadonlySet<ColumnType> = new Set(['date', 'timestamp', 'timestamptz']);

const isTieKeyType = (type: ColumnType | undefined): type is TieKeyType =>
  tieKeyTypes.some((known) => known === type);

/**
 * Returns what sorts rows that come in the order of `moment`. Null if the server has to sort them: its sort takes
 * little beside values that may be long, and knows the order of all types.
 *
 * @param keys indices among `sent`
 * @param index of the moment in a row
 */
export function tieFieldsOf(
  sent: readonly SentColumn[],
  keys: readonly number[],
  moment: Column | undefined,
  index: number,
): TieFields | null {
  if (!moment || !momentTypes.has(moment.type) || sent.length === 0) return null;
  if (!sent.every(({ type, sentAs }) => sentAs === undefined && shortTypes.has(type))) return null;
  const fields = keys.flatMap((field) => {
    const type = sent[field]?.type;
    return isTieKeyType(type) ? [{ field, type }] : [];
  });
  return fields.length === keys.length ? { moment: index, keys: fields } : null;
}

/** Fields of rows that follow one another. */
export interface TieRows {
  readonly view: DataView;
  readonly offsets: Int32Array;
  readonly lengths: Int32Array;
  readonly hiddenOffsets: Int32Array;
  readonly hiddenLengths: Int32Array;
}

/**
 * Sorts rows that come in the order of their moment by key too, as `ORDER BY moment, key` does: a server's
 * incremental sort of narrow rows takes as long as all the rest. Only positions are exchanged.
 */
export class TieOrder {
  readonly #width: number;
  readonly #hidden: number;
  readonly #fields: TieFields;

  /** @param width fields of `offsets` per row. @param hidden those of `hiddenOffsets` */
  constructor(width: number, hidden: number, fields: TieFields) {
    this.#width = width;
    this.#hidden = hidden;
    this.#fields = fields;
  }

  /** The first of the last rows that have one moment, of the first `count` rows. */
  lastRun(rows: TieRows, count: number): number {
    const { view } = rows;
    let first = count - 1;
    while (first > 0 && this.#isTie(rows, view, first)) first -= 1;
    return first;
  }

  /** Sorts the first `count` rows, which begin and end with whole runs. */
  sort(rows: TieRows, count: number): void {
    const { view } = rows;
    const { moment } = this.#fields;
    const isHidden = moment >= this.#width;
    const offsets = isHidden ? rows.hiddenOffsets : rows.offsets;
    const width = isHidden ? this.#hidden : this.#width;
    const field = isHidden ? moment - this.#width : moment;
    // Nearly all rows have a moment of their own, and it is the last word that differs.
    const lastWord = count > 0 && this.#length(rows, 0, moment) === 8 ? 4 : 0;
    let first = 0;
    for (let row = 1, index = field + width; row < count; row += 1, index += width) {
      const at = offsets[index] as number;
      const before = offsets[index - width] as number;
      const isTie =
        view.getInt32(at + lastWord) === view.getInt32(before + lastWord) &&
        view.getInt32(at) === view.getInt32(before);
      if (isTie) continue;
      if (row - first > 1) this.#sortRun(rows, view, first, row);
      first = row;
    }
    if (count - first > 1) this.#sortRun(rows, view, first, count);
  }

  /** Says whether a row has the moment of the row before it. */
  #isTie(rows: TieRows, view: DataView, row: number): boolean {
    const { moment } = this.#fields;
    const at = this.#offset(rows, row, moment);
    const before = this.#offset(rows, row - 1, moment);
    if (view.getInt32(at) !== view.getInt32(before)) return false;
    return (
      this.#length(rows, row, moment) === 4 || view.getInt32(at + 4) === view.getInt32(before + 4)
    );
  }

  #sortRun(rows: TieRows, view: DataView, first: number, end: number): void {
    let sorted = first + 1;
    while (sorted < end && this.#compare(rows, view, sorted - 1, sorted) <= 0) sorted += 1;
    if (sorted === end) return;
    const order = Array.from({ length: end - first }, (_, index) => first + index);
    order.sort((one, other) => this.#compare(rows, view, one, other));
    exchange(rows.offsets, this.#width, first, order);
    exchange(rows.lengths, this.#width, first, order);
    exchange(rows.hiddenOffsets, this.#hidden, first, order);
    exchange(rows.hiddenLengths, this.#hidden, first, order);
  }

  /** By key; null is the greatest, as in PostgreSQL. */
  #compare(rows: TieRows, view: DataView, one: number, other: number): number {
    for (const { field, type } of this.#fields.keys) {
      const oneIsNull = this.#length(rows, one, field) < 0;
      const otherIsNull = this.#length(rows, other, field) < 0;
      const order =
        oneIsNull || otherIsNull
          ? Number(oneIsNull) - Number(otherIsNull)
          : compareKeys(
              type,
              view,
              this.#offset(rows, one, field),
              this.#offset(rows, other, field),
            );
      if (order !== 0) return order;
    }
    return 0;
  }

  #offset({ offsets, hiddenOffsets }: TieRows, row: number, field: number): number {
    const width = this.#width;
    return (
      field < width
        ? offsets[row * width + field]
        : hiddenOffsets[row * this.#hidden + field - width]
    ) as number;
  }

  #length({ lengths, hiddenLengths }: TieRows, row: number, field: number): number {
    const width = this.#width;
    return (
      field < width
        ? lengths[row * width + field]
        : hiddenLengths[row * this.#hidden + field - width]
    ) as number;
  }
}

/** Puts the rows of `order`, each of `width` values, to the places from `first` on. */
function exchange(
  values: Int32Array,
  width: number,
  first: number,
  order: readonly number[],
): void {
  const before = values.slice(first * width, (first + order.length) * width);
  order.forEach((row, index) => {
    const from = (row - first) * width;
    values.set(before.subarray(from, from + width), (first + index) * width);
  });
}

function compareKeys(type: TieKeyType, view: DataView, one: number, other: number): number {
  switch (type) {
    case 'int2':
      return view.getInt16(one) - view.getInt16(other);
    case 'int4':
      return view.getInt32(one) - view.getInt32(other);
    case 'int8':
      return view.getInt32(one) - view.getInt32(other) || compareWords(view, one, other, 4, 8);
    case 'uuid':
      return compareWords(view, one, other, 0, 16);
  }
}

function compareWords(
  view: DataView,
  one: number,
  other: number,
  start: number,
  end: number,
): number {
  for (let at = start; at < end; at += 4) {
    const order = view.getUint32(one + at) - view.getUint32(other + at);
    if (order !== 0) return order;
  }
  return 0;
}
