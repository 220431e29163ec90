import type { SchemaElement } from 'hyparquet';
import { float4Text, float8Text } from '../text/format-floats.ts';
import { textOfMicroseconds } from './read-times.ts';

/** A file's facts about the values of a column, or of the elements of its lists. */
export interface ReadLeaf {
  readonly element: SchemaElement;
  readonly isList: boolean;
  /** True if the library gets it without its annotation, so that its values are only read with the leaf. */
  readonly isBare: boolean;
}

/**
 * The leaves of a schema by the names of the columns. Decimals and times of day lose their annotations in the
 * schema: the library would make floats of the first, and does not know the second.
 */
export function takeLeaves(schema: SchemaElement[]): ReadonlyMap<string, ReadLeaf> {
  const leaves = new Map<string, ReadLeaf>();
  for (let at = 1; at < schema.length; at++) {
    const { name, num_children } = schema[at] as SchemaElement;
    const isList = num_children !== undefined;
    // Below a list are its middle group and its element.
    if (isList) at += 2;
    const element = schema[at] as SchemaElement;
    const isBare = element.converted_type === 'DECIMAL' || element.converted_type === 'TIME_MICROS';
    leaves.set(name, { element, isList, isBare });
    if (isBare) {
      const { converted_type: _, logical_type: __, ...bare } = element;
      schema[at] = bare;
    }
  }
  return leaves;
}

/**
 * The text of a value whose column PostgreSQL sends as JSON: of a string its content, else the JSON.
 *
 * @param sourceType PostgreSQL's name of the column's type; a list of numeric without limits has texts
 */
export function textOfJsonColumn(
  value: unknown,
  { element, isList }: ReadLeaf,
  sourceType = '',
): string {
  if (!isList) return textOfValue(value, element);
  const areNumbers = /^numeric\b/.test(sourceType);
  const items = (value as unknown[]).map((item) => jsonOf(item, element, areNumbers));
  return `[${items.join(',')}]`;
}

/** Prints as PostgreSQL's to_json prints an element of an array. */
function jsonOf(item: unknown, element: SchemaElement, isNumber: boolean): string {
  if (item === null || item === undefined) return 'null';
  const text = textOfValue(item, element);
  if (isNumber) return /[a-zA-Z]$/.test(text) ? `"${text}"` : text;
  const { type, converted_type: converted, logical_type: logical } = element;
  if (converted === 'TIMESTAMP_MICROS') {
    const zone = logical?.type === 'TIMESTAMP' && logical.isAdjustedToUTC ? '+00:00' : '';
    const fraction = (_: string, digits: string) => (digits && `.${digits}`) + zone;
    return JSON.stringify(text.replace(/\.(\d*?)0*Z/, fraction));
  }
  const isBare = converted === 'DECIMAL' || bareTypes.has(type ?? '');
  if (!isBare || converted === 'DATE' || converted === 'TIME_MICROS') return JSON.stringify(text);
  // NaN and the infinities are strings.
  return /[a-zA-Z]$/.test(text) && typeof item === 'number' ? `"${text}"` : text;
}

/** Physical types whose values are bare words in JSON. */
const bareTypes: ReadonlySet<string> = new Set(['BOOLEAN', 'INT32', 'INT64', 'FLOAT', 'DOUBLE']);

function textOfValue(value: unknown, element: SchemaElement): string {
  const { type, converted_type: converted } = element;
  if (converted === 'DECIMAL') return textOfDecimal(value, element.scale ?? 0);
  if (converted === 'TIME_MICROS') return textOfTime(value as bigint);
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString('hex')}`;
  if (type === 'FLOAT') return float4Text(value as number);
  return type === 'DOUBLE' ? float8Text(value as number) : String(value);
}

function textOfDecimal(value: unknown, scale: number): string {
  const unscaled =
    value instanceof Uint8Array
      ? BigInt.asIntN(value.length * 8, BigInt(`0x${Buffer.from(value).toString('hex')}`))
      : BigInt(value as bigint);
  const sign = unscaled < 0n ? '-' : '';
  const digits = String(unscaled)
    .replace('-', '')
    .padStart(scale + 1, '0');
  const point = digits.length - scale;
  return sign + digits.slice(0, point) + (scale > 0 ? `.${digits.slice(point)}` : '');
}

/** Without zeros at the end of the fraction, as PostgreSQL writes it. */
function textOfTime(micros: bigint): string {
  const text = textOfMicroseconds(micros).slice(11, -1);
  return text.replace(/\.?0+$/, '');
}
