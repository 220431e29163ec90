import { type Json, JsonObject, objectOf } from '../json.ts';
import { editColumn } from '../properties.ts';
import { RowError } from '../row-error.ts';
import { columnField } from '../settings.ts';
import { defineTransform, field } from '../transform.ts';

/** Deeper values stay nested. */
const maxLevels = 32;

/** Length of all new names together, if the properties themselves are not longer. */
const minNamesLength = 64 * 1024;

export const flattenProperties = defineTransform({
  id: 5,
  name: 'Flatten properties',
  description: 'Moves nested properties to the top level and joins their names.',
  protects: false,
  fields: [
    field({
      key: 'separator',
      name: 'Separator',
      type: 'choice',
      default: '__',
      choices: ['__', '.', '/'],
    }),
    columnField,
  ],
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
