import {
  type Json,
  jsonNull,
  stringOf,
  type JsonText,
  kindOf,
  parseJson,
  plainOf,
  toJson,
} from '../json.ts';
import { propertiesOf } from '../properties.ts';
import { RowError } from '../row-error.ts';
import { columnField, readMembers } from '../settings.ts';
import { defineTransform, field, InvalidSetting } from '../transform.ts';

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
  const truth = booleans.get(plainOf(value).trim().toLowerCase());
  return truth === undefined ? null : toJson(truth);
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

const casts = {
  string: (value) => toJson(plainOf(value)),
  number: toNumber,
  integer: toInteger,
  boolean: toBoolean,
  json: fromJson,
} as const satisfies Record<string, Cast>;

const types = Object.keys(casts).join(', ');

export const castProperties = defineTransform({
  id: 9,
  name: 'Cast properties',
  description: 'Gives the values of properties another type.',
  protects: false,
  fields: [
    field({
      key: 'types',
      name: 'Types',
      type: 'json',
      required: true,
      hint: `{"price": "number"}. Types: ${types}.`,
    }),
    field({
      key: 'otherwise',
      name: 'Values that do not fit the type',
      type: 'choice',
      default: 'error',
      choices: ['error', 'null', 'keep'],
    }),
    columnField,
  ],
  compile(config) {
    const { otherwise, column = 'properties' } = config;
    const properties = [...readMembers(config, 'types')].map(([name, value]) => {
      const type = stringOf(value) ?? '';
      if (!isType(type))
        throw new InvalidSetting('types', `The type of ${name} must be one of ${types}.`);
      return { chosen: propertiesOf([name], column, 'types'), type, name };
    });
    const misfit = (value: Json, name: string, type: string): Json => {
      if (otherwise === 'keep') return value;
      if (otherwise === 'null') return jsonNull;
      throw new RowError(`${name} holds a value that cannot become a ${type}.`);
    };
    return (row) =>
      properties.reduce(
        (before, { chosen, type, name }) =>
          chosen.update(before, (value) =>
            value === jsonNull ? value : (casts[type](value) ?? misfit(value, name, type)),
          ),
        row,
      );
  },
});

function isType(text: string): text is keyof typeof casts {
  return Object.hasOwn(casts, text);
}
