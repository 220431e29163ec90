import { isNumeric } from '../../foundation/domain/decimal-columns.ts';
import type { ReadColumn, ReadRow } from '../encoders/encoder.ts';

/** PostgreSQL's texts have no NUL, so no key value equals this or the separator. */
const nullKey = '\0null';

/** The text of one row's keys. */
export function joinKeys(keys: readonly (string | null)[]): string {
  return keys.map((key) => key ?? nullKey).join('\0');
}

/** The key of one row of a file, from the values of its key columns. */
export function keyOfRow(row: ReadRow, columns: readonly ReadColumn[]): string {
  return joinKeys(
    columns.map((column, at) => {
      const text = row[at] ?? null;
      return text === null ? null : canonicalKey(column, text);
    }),
  );
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

/**
 * One spelling for each value: PostgreSQL, JSON, CSV and Parquet write the same time and the same float
 * differently, and a DECIMAL of Parquet has more zeros after the point than a numeric without limits.
 *
 * @param text the value as PostgreSQL casts it to text, or as in a file
 */
export function canonicalKey({ type, sourceType = '' }: ReadColumn, text: string): string {
  switch (type) {
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
