import { type Json, type JsonText, kindOf, parseJson, plainOf, stringOf, toJson } from '../json.ts';

/** A value as another type, or null if it cannot be one. Digits are kept: no number is rounded. */
type Cast = (value: Json) => Json | null;

const numberText = /^([+-]?)0*(\d+)(\.\d+)?([eE][+-]?\d+)?$/;
const booleans: ReadonlyMap<string, boolean> = new Map([
  ...['true', 't', 'yes', 'y', 'on', '1'].map((text) => [text, true] as const),
  ...['false', 'f', 'no', 'n', 'off', '0'].map((text) => [text, false] as const),
]);

/** Longer texts are no numbers that a reader would understand. */
const maxNumberLength = 400;

const toNumber: Cast = (value) => {
  if (kindOf(value) === 'boolean') return toJson(value === 'true' ? 1 : 0);
  if (kindOf(value) === 'number') return value;
  const text = (stringOf(value) ?? '').trim();
  if (text.length > maxNumberLength) return null;
  const [, sign, whole, fraction = '', exponent = ''] = numberText.exec(text) ?? [];
  if (whole === undefined) return null;
  return `${sign === '-' ? '-' : ''}${whole}${fraction}${exponent}` as JsonText;
};

const toInteger: Cast = (value) => {
  const number = toNumber(value);
  const [, whole] = /^(-?\d+)(?:\.0+)?$/.exec(number === null ? '' : plainOf(number)) ?? [];
  return whole === undefined ? null : (whole as JsonText);
};

const toBoolean: Cast = (value) => {
  const known = booleans.get(plainOf(value).trim().toLowerCase());
  return known === undefined ? null : toJson(known);
};

/** The value that the text of a string holds. */
const fromJson: Cast = (value) => {
  const text = stringOf(value);
  if (text === null) return value;
  try {
    return parseJson(text);
  } catch {
    return null;
  }
};

export const casts = {
  string: (value) => toJson(plainOf(value)),
  number: toNumber,
  integer: toInteger,
  boolean: toBoolean,
  json: fromJson,
} as const satisfies Record<string, Cast>;
