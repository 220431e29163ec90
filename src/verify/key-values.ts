import type { Column, ColumnType } from '../domain/row-block.ts';
import { toTimestamp } from '../domain/time.ts';

/** A column of the key, described as it is in the exported rows. */
export type KeyColumn = Pick<Column, 'name' | 'type'>;

/** PostgreSQL's texts hold no NUL: no value of a key can be taken for this or for the separator. */
const nullKey = '\0null';

/** The text of one row's keys. */
export function joinKeys(keys: readonly (string | null)[]): string {
  return keys.map((key) => key ?? nullKey).join('\0');
}

/** One row's keys for people. */
export function showKeys(joined: string): string {
  return joined.replaceAll(nullKey, 'null').replaceAll('\0', '/');
}

/**
 * One spelling for each value: PostgreSQL, JSON, CSV and Parquet write the same time and the same
 * float in several.
 *
 * @param text the value as PostgreSQL casts it to text, or as a file spells it
 */
export function canonicalKey(type: ColumnType, text: string): string {
  switch (type) {
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

/** Of a value that is spelled as JSON: a string's own text, of anything else its JSON. */
export function keyOfJson(json: string): string | null {
  if (json === 'null') return null;
  return json.startsWith('"') ? String(JSON.parse(json)) : json;
}

/** `2024-03-01 00:00:00.5+00` and `2024-03-01T00:00:00.500000Z` */
const timeForm = /^(\d+-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(?:Z|\+00)?( BC)?$/;

function canonicalTime(text: string): string {
  const [, day, time, fraction = '', era = ''] = timeForm.exec(text) ?? [];
  if (day === undefined) return text;
  return `${day}T${time}.${fraction.padEnd(6, '0')}${era}`;
}

/** A time of a Parquet file, microseconds since 1970. */
export function keyOfMicroseconds(micros: bigint): string {
  const fraction = ((micros % 1_000n) + 1_000n) % 1_000n;
  const text = toTimestamp(Number((micros - fraction) / 1_000n));
  return canonicalTime(yearOfPostgres(`${text.slice(0, -4)}${String(fraction).padStart(3, '0')}Z`));
}

/** A date of a Parquet file, days since 1970. */
export function keyOfDays(days: number): string {
  return yearOfPostgres(toTimestamp(days * 86_400_000)).replace(/T.*Z/, '');
}

/** ISO's years 0 and below are years before Christ, and those past 9999 have a sign. */
function yearOfPostgres(text: string): string {
  const [, year = '', rest = ''] = /^([+-]?\d+)(-.*)$/.exec(text) ?? [];
  const number = Number(year);
  const shown = String(number > 0 ? number : 1 - number).padStart(4, '0');
  return `${shown}${rest}${number > 0 ? '' : ' BC'}`;
}
