import {
  type Json,
  jsonNull,
  JsonObject,
  type JsonText,
  kindOf,
  mapScalars,
  objectOf,
  parseJson,
  plainOf,
  stringOf,
  toJson,
} from '../json.ts';
import { chooseProperties, columnOf, editColumn, propertiesOf } from '../properties.ts';
import { remember } from '../remember.ts';
import { RowError } from '../effort.ts';
import {
  anyColumnField,
  choiceField,
  columnField,
  defineTransform,
  eventColumnField,
  field,
  InvalidSetting,
  jsonField,
  propertiesField,
  readAll,
  readMembers,
  readNames,
  readNumber,
  type Row,
} from '../transform.ts';

/** Null if it cannot be one. No number is rounded. */
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
    jsonField('types', 'Types', `{"price": "number"}. Types: ${types}.`),
    choiceField('otherwise', 'Values that do not fit the type', ['error', 'null', 'keep']),
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

const capital = (word: string) => word.charAt(0).toUpperCase() + word.slice(1);

/** The styles, each from a name in any style: `signed up`, `signedUp`, `SIGNED_UP`. */
const caseStyles = {
  snake_case: (name: string) => wordsOf(name).join('_'),
  'kebab-case': (name: string) => wordsOf(name).join('-'),
  camelCase: (name: string) => {
    const [first = '', ...rest] = wordsOf(name);
    return first + rest.map(capital).join('');
  },
  PascalCase: (name: string) => wordsOf(name).map(capital).join(''),
  'Title Case': (name: string) => wordsOf(name).map(capital).join(' '),
} as const;

export const changeCase = defineTransform({
  id: 17,
  name: 'Change case',
  description: 'Writes the names of events and properties in one style.',
  protects: false,
  fields: [
    choiceField('style', 'Style', Object.keys(caseStyles)),
    choiceField('names', 'Whose names', ['events and properties', 'events', 'properties']),
    columnField,
    eventColumnField,
  ],
  compile({ style = '', names, column = 'properties', event_column: eventColumn = 'event' }) {
    const write = isCaseStyle(style) ? caseStyles[style] : caseStyles.snake_case;
    // Names that begin with $ belong to the tools that sent them.
    const change = remember((name) => (name.startsWith('$') ? name : write(name) || name));
    const changeProperties = (holder: JsonObject) => renameAll(holder, change);
    const changeEvent = (row: Row): Row => {
      const before = stringOf(columnOf(row, eventColumn));
      const after = before === null ? null : change(before);
      return after === before ? row : row.with([[eventColumn, toJson(after)]]);
    };
    return (row) => {
      const named = names === 'properties' ? row : changeEvent(row);
      return names === 'events' ? named : editColumn(named, column, changeProperties);
    };
  },
});

/** One level: what is nested keeps its names. */
function renameAll(holder: JsonObject, change: (name: string) => string): JsonObject {
  const renamed = [...holder.members].map(([name, value]): [string, Json] => [change(name), value]);
  const members = new Map(renamed);
  if (members.size < renamed.length) throw new RowError('Two properties would have the same name.');
  return new JsonObject(members);
}

function isCaseStyle(text: string): text is keyof typeof caseStyles {
  return Object.hasOwn(caseStyles, text);
}

/** Words are parted by what is no letter or digit, and where a capital begins one: `parseURLPath`. */
function wordsOf(name: string): string[] {
  return name
    .replace(/(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu, ' ')
    .toLowerCase()
    .split(/[^\p{L}\p{N}\p{M}]+/u)
    .filter((word) => word !== '');
}

export const truncateValues = defineTransform({
  id: 18,
  name: 'Truncate values',
  description: 'Cuts long texts off.',
  protects: false,
  fields: [
    field('max_length', 'Maximum length in characters', { default: '1000' }),
    {
      ...propertiesField,
      required: false,
      hint: 'Names, comma separated. Leave empty for all of the column.',
    },
    anyColumnField,
  ],
  compile(config) {
    const { column = 'properties' } = config;
    const { maxLength, properties } = readAll({
      maxLength: () => readNumber(config, 'max_length', { from: 1, to: 1_000_000, whole: true }),
      properties: () =>
        readNames(config, 'properties').length > 0 || column === '*'
          ? chooseProperties(config)
          : null,
    });
    const truncate = (value: Json) => mapScalars(value, (scalar) => cutOff(scalar, maxLength));
    if (properties) return (row) => properties.update(row, truncate);
    return (row) => editColumn(row, column, (holder) => objectOf(truncate(holder)) ?? holder);
  },
});

function cutOff(value: JsonText, maxLength: number): JsonText {
  // The quotes take two; escapes only make it longer.
  if (value.length - 2 <= maxLength) return value;
  const text = stringOf(value);
  if (text === null || text.length <= maxLength) return value;
  // A character of two units is kept whole or cut off whole.
  const end = /[\uD800-\uDBFF]/.test(text.charAt(maxLength - 1)) ? maxLength - 1 : maxLength;
  return toJson(text.slice(0, end));
}
