import { type Json, JsonObject, stringOf } from '../json.ts';
import { editColumn } from '../properties.ts';
import { columnField, readMembers } from '../settings.ts';
import { defineTransform, field, InvalidSetting } from '../transform.ts';

export const renameProperties = defineTransform({
  id: 4,
  name: 'Rename properties',
  description: 'Renames properties.',
  protects: false,
  fields: [
    field({
      key: 'names',
      name: 'Names',
      type: 'json',
      required: true,
      hint: '{"old name": "new name"}',
    }),
    columnField,
  ],
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
