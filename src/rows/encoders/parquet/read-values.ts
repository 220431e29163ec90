import type { SchemaElement } from 'hyparquet';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import { float4Text, float8Text } from '../text/format-floats.ts';

const dayMs = 86_400_000;
/** The calendar repeats after 400 years. */
const cycleYears = 400;
const cycleMs = 146_097 * dayMs;
/** JavaScript's dates end at the year 275760, PostgreSQL's at 5874897. */
const lastMs = 8.64e15;

/** Microseconds since 1970. */
export function textOfMicroseconds(micros: bigint): string {
  const fraction = ((micros % 1_000n) + 1_000n) % 1_000n;
  const text = textOfMilliseconds(Number((micros - fraction) / 1_000n));
  // The last digits come before the Z, and before the BC of an early year.
  return text.replace(/\d{3}Z/, `${String(fraction).padStart(3, '0')}Z`);
}

/** Days since 1970. */
export function textOfDays(days: number): string {
  return textOfMilliseconds(days * dayMs).replace(/T.*Z/, '');
}

function textOfMilliseconds(ms: number): string {
  const cycles = ms > lastMs ? Math.ceil((ms - lastMs) / cycleMs) : 0;
  return yearOfPostgres(toTimestamp(ms - cycles * cycleMs), cycles * cycleYears);
}

/** ISO's years 0 and below are years before Christ, and those past 9999 have a sign. */
function yearOfPostgres(text: string, later: number): string {
  const [, year = '', rest = ''] = /^([+-]?\d+)(-.*)$/.exec(text) ?? [];
  const number = Number(year) + later;
  const shown = String(number > 0 ? number : 1 - number).padStart(4, '0');
  return `${shown}${rest}${number > 0 ? '' : ' BC'}`;
}

export interface ReadLeaf {
  readonly element: SchemaElement;
  readonly isList: boolean;
  /** The library gets it without its annotation, so that its values are only read with the leaf. */
  readonly isBare: boolean;
}

/** By column. The schema loses annotations of decimals and times of day: the library would make floats of the first. */
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

/** Of a JSON string its content, else the JSON. @param sourceType a list of numeric without limits has texts */
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

/** As PostgreSQL's to_json prints an element of an array. */
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
  return textOfMicroseconds(micros)
    .slice(11, -1)
    .replace(/\.?0+$/, '');
}
