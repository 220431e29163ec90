import { type Json, JsonObject, objectOf, stringOf } from '../json.ts';
import { chooseProperties, editColumn } from '../properties.ts';
import { RowError } from '../effort.ts';
import {
  anyColumnField,
  choiceField,
  columnField,
  defineTransform,
  InvalidSetting,
  jsonField,
  propertiesField,
  readMembers,
  requireNames,
} from '../transform.ts';

export const dropProperties = defineTransform({
  id: 1,
  name: 'Drop properties',
  description: 'Removes properties from each event.',
  protects: false,
  fields: [propertiesField, anyColumnField],
  compile(config) {
    const properties = chooseProperties(config);
    return (row) => properties.update(row, () => undefined);
  },
});

export const keepProperties = defineTransform({
  id: 7,
  name: 'Keep properties',
  description: 'Takes all properties away but those that are named.',
  protects: false,
  fields: [propertiesField, columnField],
  compile(config) {
    const names = new Set(requireNames(config, 'properties'));
    return (row) =>
      editColumn(row, config.column ?? 'properties', (holder) => {
        const members = [...holder.members].filter(([name]) => names.has(name));
        return members.length === holder.members.size ? holder : new JsonObject(new Map(members));
      });
  },
});

export const renameProperties = defineTransform({
  id: 4,
  name: 'Rename properties',
  description: 'Renames properties.',
  protects: false,
  fields: [jsonField('names', 'Names', '{"old name": "new name"}'), columnField],
  compile(config) {
    const names = [...readMembers(config, 'names')].map(([before, value]) => {
      const after = stringOf(value);
      if (!after)
        throw new InvalidSetting('names', 'Each new name must be a string: {"old": "new"}.');
      return { before, after };
    });
    const taken = new Set(names.map(({ before }) => before));
    return (row) =>
      editColumn(row, config.column ?? 'properties', (holder) => {
        const renamed = names.flatMap(({ before, after }): [string, Json][] => {
          const value = holder.get(before);
          return value === undefined ? [] : [[after, value]];
        });
        if (renamed.length === 0) return holder;
        // All are taken out before any is put back, so that two can change places.
        const others = [...holder.members].filter(([name]) => !taken.has(name));
        return new JsonObject(new Map([...others, ...renamed]));
      });
  },
});

export const setProperties = defineTransform({
  id: 8,
  name: 'Set properties',
  description: 'Gives each event properties with fixed values.',
  protects: false,
  fields: [
    jsonField('values', 'Values', '{"name": "value"}'),
    choiceField('existing', 'Properties that the event has', ['replace', 'keep']),
    anyColumnField,
  ],
  compile(config) {
    const values = [...readMembers(config, 'values')];
    const { column = 'properties' } = config;
    const set = (holder: JsonObject) => {
      const properties =
        config.existing === 'keep'
          ? values.filter(([name]) => holder.get(name) === undefined)
          : values;
      return properties.length === 0 ? holder : holder.with(properties);
    };
    return (row) => (column === '*' ? set(row) : editColumn(row, column, set));
  },
});

const maxLevels = 32;

/** Length of all new names together, if the properties themselves are not longer. */
const minNamesLength = 64 * 1024;

export const flattenProperties = defineTransform({
  id: 5,
  name: 'Flatten properties',
  description: 'Moves nested properties to the top level and joins their names.',
  protects: false,
  fields: [choiceField('separator', 'Separator', ['__', '.', '/']), columnField],
  compile({ separator = '__', column = 'properties' }) {
    return (row) =>
      editColumn(row, column, (holder) => {
        const flat = new Map<string, Json>();
        // A long name in front of many short ones would make a row thousands of times as long.
        const room = { left: Math.max(minNamesLength, 2 * holder.text.length) };
        lift(flat, room, '', holder, separator, maxLevels);
        return [...holder.members.values()].some(isNested) ? new JsonObject(flat) : holder;
      });
  },
});

function lift(
  flat: Map<string, Json>,
  room: { left: number },
  prefix: string,
  object: JsonObject,
  separator: string,
  levels: number,
): void {
  for (const [name, value] of object.members) {
    const nested = levels > 0 && isNested(value) ? objectOf(value) : null;
    if (nested) {
      lift(flat, room, prefix + name + separator, nested, separator, levels - 1);
    } else if (flat.has(prefix + name)) {
      throw new RowError('Two properties would have the same name.');
    } else {
      room.left -= prefix.length + name.length;
      if (room.left < 0) throw new RowError('The new names would be too long.');
      flat.set(prefix + name, value);
    }
  }
}

/** An empty object has nothing to lift, and stays. */
function isNested(value: Json): boolean {
  const object = objectOf(value);
  return object !== null && object.members.size > 0;
}
