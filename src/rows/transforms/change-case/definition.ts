import { type Json, JsonObject, stringOf, toJson } from '../json.ts';
import { columnOf, editColumn } from '../properties.ts';
import { remember } from '../remember.ts';
import { RowError } from '../row-error.ts';
import { columnField, eventColumnField } from '../settings.ts';
import { defineTransform, field, type Row } from '../transform.ts';

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
    field({
      key: 'style',
      name: 'Style',
      type: 'choice',
      default: 'snake_case',
      choices: Object.keys(caseStyles),
    }),
    field({
      key: 'names',
      name: 'Whose names',
      type: 'choice',
      default: 'events and properties',
      choices: ['events and properties', 'events', 'properties'],
    }),
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
