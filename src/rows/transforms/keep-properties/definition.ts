import { JsonObject } from '../json.ts';
import { editColumn } from '../properties.ts';
import { columnField, propertiesField, requireNames } from '../settings.ts';
import { defineTransform } from '../transform.ts';

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
