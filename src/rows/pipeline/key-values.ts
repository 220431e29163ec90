import { isNumeric } from '../../foundation/domain/decimal-columns.ts';
import { textOfJson } from '../../foundation/domain/row-block.ts';
import type { ReadColumn, ReadRow } from '../encoders/encoder.ts';
import type { Manifest } from './manifest.ts';

/** PostgreSQL's texts have no NUL, so no key value equals this or the separator. */
const nullKey = '\0null';

/** The text of one row's keys. */
export function joinKeys(keys: readonly (string | null)[]): string {
  return keys.map((key) => key ?? nullKey).join('\0');
}

/** Files do not have the columns that are asked for: their rows cannot be compared by these. */
export class ColumnsAbsent extends Error {}

/** The key of one row of a file, from the values of its key columns. */
export const keyOfRow = (row: ReadRow, columns: readonly ReadColumn[]): string =>
  joinKeys(valuesOfRow(row, columns));

/**
 * The values of one row of a file, each in one spelling.
 *
 * @throws ColumnsAbsent if the row does not have one of them: an absent value is no null
 */
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
export function keyOfJson(column: ReadColumn, json: string): string | null {
  const text = isJson(column) ? json : textOfJson(json);
  return text === null ? null : canonicalKey(column, text);
}

/** Says whether values are JSON documents, not JSON that holds another value. */
export const isJson = ({ type }: Pick<ReadColumn, 'type'>): boolean =>
  type === 'json' || type === 'jsonb';

/**
 * Key columns of the source as files have them: whether texts are padded depends on the type when they were written.
 *
 * @param schema of the files; absent: it is not known
 */
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

/**
 * Key columns of the source that files do not have: the model has got others since.
 *
 * @returns their names in words; null if there are none, or if the schema is not known
 */
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

/** Without the zeros that end a fraction. */
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
  if (day === undefined) return text;
  return `${day}T${time}.${fraction.padEnd(6, '0')}${era}`;
}
