import { type Json, JsonObject, objectOf } from '../json.ts';
import { editColumn } from '../properties.ts';
import { RowError } from '../row-error.ts';
import { columnField } from '../settings.ts';
import { defineTransform, field } from '../transform.ts';

/** What is nested deeper stays nested. */
const maxLevels = 32;

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
        lift(flat, '', holder, separator, maxLevels);
        return [...holder.members.values()].some(isNested) ? new JsonObject(flat) : holder;
      });
  },
});

function lift(
  flat: Map<string, Json>,
  prefix: string,
  object: JsonObject,
  separator: string,
  levels: number,
): void {
  for (const [name, value] of object.members) {
    const nested = levels > 0 && isNested(value) ? objectOf(value) : null;
    if (nested) {
      lift(flat, prefix + name + separator, nested, separator, levels - 1);
    } else if (flat.has(prefix + name)) {
      throw new RowError('Two properties would have the same name.');
    } else {
      flat.set(prefix + name, value);
    }
  }
}

/** An empty object has nothing to lift, and stays. */
function isNested(value: Json): boolean {
  const object = objectOf(value);
  return object !== null && object.members.size > 0;
}
