import type { JsonObject } from '../json.ts';
import { editColumn } from '../properties.ts';
import { anyColumnField, readMembers } from '../settings.ts';
import { defineTransform, field } from '../transform.ts';

export const setProperties = defineTransform({
  id: 8,
  name: 'Set properties',
  description: 'Gives each event properties with fixed values.',
  protects: false,
  fields: [
    field({
      key: 'values',
      name: 'Values',
      type: 'json',
      required: true,
      hint: '{"name": "value"}',
    }),
    field({
      key: 'existing',
      name: 'Properties that the event has',
      type: 'choice',
      default: 'replace',
      choices: ['replace', 'keep'],
    }),
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
