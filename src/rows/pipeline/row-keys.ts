import {
  type Column,
  copyBlock,
  type RowBlock,
  rowsOf,
  textOfJson,
} from '../../foundation/domain/row-block.ts';
import type { FieldToJson } from '../transforms/block-row.ts';
import type { StepRejection } from '../transforms/transform-rows.ts';
import type { KeySpool } from './key-spool.ts';
import { isNumeric } from '../../foundation/domain/decimal-columns.ts';
import type { ReadColumn, ReadRow } from '../encoders/encoder.ts';
import type { Manifest } from './manifest.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';

/** PostgreSQL's texts have no NUL, so no key value equals this or the separator. */
const nullKey = '\0null';

export function joinKeys(keys: readonly (string | null)[]): string {
  return keys.map((key) => key ?? nullKey).join('\0');
}

/** Files do not have the columns that are asked for: their rows cannot be compared by these. */
export class ColumnsAbsent extends Error {}

/** The key of one row of a file, from the values of its key columns. */
export const keyOfRow = (row: ReadRow, columns: readonly ReadColumn[]): string =>
  joinKeys(valuesOfRow(row, columns));

/** The values of one row of a file, each in one spelling. @throws ColumnsAbsent: an absent value is no null */
export function valuesOfRow(
  row: ReadRow,
  columns: readonly ReadColumn[],
): readonly (string | null)[] {
  return columns.map((column, at) => {
    const text = row[at];
    if (text === undefined) throw new ColumnsAbsent(`rejected rows have no ${column.name}`);
    return text === null ? null : canonicalKey(column, text);
  });
}

/** The keys that `joinKeys` has joined; null if that is ambiguous: a key may be the text `null` after an empty one. */
export function splitKeys(joined: string, count: number): readonly (string | null)[] | null {
  const parts = joined.split('\0');
  const keys: (string | null)[] = [];
  for (let at = 0; at < parts.length; at += 1) {
    const isNull = parts.length > count && parts[at] === '' && parts[at + 1] === 'null';
    keys.push(isNull ? null : (parts[at] ?? null));
    if (isNull) at += 1;
  }
  return keys.length === count ? keys : null;
}

export function showKeys(joined: string): string {
  return joined.replaceAll(nullKey, 'null').replaceAll('\0', '/');
}

/** The key's value in the JSON of a row. */
function keyOfJson(column: ReadColumn, json: string): string | null {
  const text = isJson(column) ? json : textOfJson(json);
  return text === null ? null : canonicalKey(column, text);
}

/** Says whether values are JSON documents, not JSON that holds another value. */
const isJson = ({ type }: Pick<ReadColumn, 'type'>): boolean => type === 'json' || type === 'jsonb';

/** Key columns of the source as files have them: whether texts are padded depends on their type at that time. */
export function asWritten(
  columns: readonly ReadColumn[],
  schema: Manifest['schema'] | undefined,
): readonly ReadColumn[] {
  const all = columnsOf(schema);
  const typeOf = (name: string) => String(all.find((one) => one?.name === name)?.type);
  return columns.map((column) => {
    const written = typeOf(column.name);
    const isText = column.type === 'text' && column.sourceType !== undefined;
    return isText && isPadded(written) ? { ...column, sourceType: written } : column;
  });
}

/** Names the key columns that files do not have: the model has got others since. Null: none, or it is not known. */
export function describeAbsent(
  columns: readonly ReadColumn[],
  schema: Manifest['schema'] | undefined,
): string | null {
  const all = columnsOf(schema);
  const absent = columns.filter(({ name }) => !all.some((one) => one?.name === name));
  if (all.length === 0 || absent.length === 0) return null;
  return `the files have no column ${absent.map(({ name }) => name).join(', ')}`;
}

/** Any writer of the bucket may have put these bytes there. */
const columnsOf = (
  schema: Manifest['schema'] | undefined,
): readonly (Manifest['schema'][number] | null)[] => (Array.isArray(schema) ? schema : []);

/** Says whether PostgreSQL fills values with spaces, which count for nothing in a comparison. */
const isPadded = (sourceType: string): boolean =>
  /^(?:character|bpchar)(?:\(\d+\))?$/.test(sourceType);

/**
 * One spelling for each value: PostgreSQL, JSON, CSV and Parquet write the same time and the same float
 * differently, and a DECIMAL of Parquet has more zeros after the point than a numeric without limits. PostgreSQL casts
 * a `character(n)` without its padding, and files have the padding. A null of JSON is a null in JSON Lines.
 *
 * @param text the value as PostgreSQL casts it to text, or as in a file
 */
export function canonicalKey({ type, sourceType = '' }: ReadColumn, text: string): string | null {
  switch (type) {
    case 'text':
      return isPadded(sourceType) ? withoutPadding(text) : text;
    case 'json':
    case 'jsonb':
      return text === 'null' ? null : text;
    case 'as_json':
      return isNumeric({ sourceType }) ? withoutZeros(text) : text;
    case 'timestamp':
    case 'timestamptz':
      return canonicalTime(text);
    case 'float4':
      return String(Math.fround(Number(text)));
    case 'float8':
      return String(Number(text));
    default:
      return text;
  }
}

function withoutPadding(text: string): string {
  let end = text.length;
  while (text[end - 1] === ' ') end--;
  return text.slice(0, end);
}

function withoutZeros(text: string): string {
  if (!text.includes('.')) return text;
  let end = text.length;
  while (text[end - 1] === '0') end--;
  return text.slice(0, text[end - 1] === '.' ? end - 1 : end);
}

/** `2024-03-01 00:00:00.5+00` and `2024-03-01T00:00:00.500000Z` */
const timeForm = /^(\d+-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(?:Z|\+00)?( BC)?$/;

function canonicalTime(text: string): string {
  const [, day, time, fraction = '', era = ''] = timeForm.exec(text) ?? [];
  return day === undefined ? text : `${day}T${time}.${fraction.padEnd(6, '0')}${era}`;
}

interface KeyColumn {
  readonly index: number;
  readonly column: Column;
  readonly toJson: FieldToJson;
}

/** Reads the keys of rows before they are written, as `keyOfRow` reads them from a file. */
export class RowKeys {
  readonly #columns: readonly KeyColumn[];

  /** @param indices the indices of the keys among `columns` */
  constructor(
    columns: readonly Column[],
    indices: readonly number[],
    toJson: (column: Column) => FieldToJson,
  ) {
    this.#columns = indices.flatMap((index) => {
      const column = columns[index];
      return column ? [{ index, column, toJson: toJson(column) }] : [];
    });
  }

  keyOf({ columns, bytes, offsets, lengths }: RowBlock, row: number): string {
    return joinKeys(
      this.#columns.map(({ index, column, toJson }) => {
        const field = row * columns.length + index;
        const start = offsets[field] ?? 0;
        const length = lengths[field] ?? -1;
        return length < 0 ? null : keyOfJson(column, toJson(bytes, start, start + length));
      }),
    );
  }

  keyOfRejection({ key }: StepRejection): string {
    return joinKeys(
      this.#columns.map(({ column }) => {
        const json = key[column.name];
        if (json === undefined) throw new Error(`a rejection has no key ${column.name}`);
        return keyOfJson(column, json);
      }),
    );
  }
}

/** Passes the keys of all rows on, also of those that a step rejected. */
export class KeyNotes {
  readonly #spool: KeySpool;
  readonly #keys: RowKeys;

  constructor(spool: KeySpool, keys: RowKeys) {
    this.#spool = spool;
    this.#keys = keys;
  }

  async addRows(block: RowBlock): Promise<void> {
    for (let row = 0; row < block.rowCount; row += 1) {
      const waits = this.#spool.add(this.#keys.keyOf(block, row));
      if (waits) await waits;
    }
  }

  async addRejections(rejected: readonly StepRejection[]): Promise<void> {
    for (const rejection of rejected) await this.#spool.add(this.#keys.keyOfRejection(rejection));
  }
}

/** The key of a row of a request of keys, as `keyOfRow` reads it from a file. @param without columns to leave out */
export function textOfKeys(
  { columns, bytes, offsets, lengths }: RowBlock,
  row: number,
  without: readonly string[] = [],
): string {
  return joinKeys(
    columns.flatMap((column, index) => {
      if (without.includes(column.name)) return [];
      const field = row * columns.length + index;
      const start = offsets[field] ?? 0;
      const length = lengths[field] ?? -1;
      if (length < 0) return null;
      const text = bytes.toString('utf8', start, start + length);
      const plain = column.type === 'as_json' ? textOfJson(text) : text;
      return plain === null ? null : canonicalKey(column, plain);
    }),
  );
}

/** Finds rows with the key of the row before them: those of an element come in the order of the key. */
export class DistinctKeys {
  readonly #keys: RowKeys;
  readonly #indices: readonly number[];
  /** The last row of the block before; null: there was none. */
  #last: RowBlock | null = null;

  constructor(
    columns: readonly Column[],
    indices: readonly number[],
    toJson: (column: Column) => FieldToJson,
  ) {
    this.#keys = new RowKeys(columns, indices, toJson);
    this.#indices = indices;
  }

  /** @throws SluiceError `model.key_not_unique`; `source.model_invalid` if a row has no key */
  check(block: RowBlock): void {
    for (let row = 0; row < block.rowCount; row += 1) {
      this.#refuseNull(block, row);
      const isSame =
        row === 0
          ? this.#isSame(this.#last, 0, block, 0)
          : this.#isSame(block, row - 1, block, row);
      if (!isSame) continue;
      const shown = showKeys(this.#keys.keyOf(block, row));
      throw new SluiceError('model.key_not_unique', `two rows have the key ${shown}`);
    }
    if (block.rowCount === 0) return;
    // The block's memory is used again.
    this.#last = copyBlock(rowsOf(block, block.rowCount - 1));
  }

  #refuseNull({ columns, lengths }: RowBlock, row: number): void {
    for (const index of this.#indices) {
      if ((lengths[row * columns.length + index] as number) >= 0) continue;
      const { name } = columns[index] as Column;
      const detail = `a row has no ${name}, so readers cannot tell it from others. Make the key columns NOT NULL, or name others`;
      throw new SluiceError('source.model_invalid', detail);
    }
  }

  #isSame(one: RowBlock | null, oneRow: number, other: RowBlock, row: number): boolean {
    if (one === null) return false;
    const width = other.columns.length;
    for (const index of this.#indices) {
      const [a, b] = [oneRow * width + index, row * width + index];
      const length = other.lengths[b] as number;
      if (one.lengths[a] !== length) return false;
      const [from, to] = [one.offsets[a] as number, other.offsets[b] as number];
      // Keys in order differ at their ends.
      for (let at = length - 1; at >= 0; at -= 1) {
        if (one.bytes[from + at] !== other.bytes[to + at]) return false;
      }
    }
    return true;
  }
}
