import { stringOf } from '../json.ts';
import { columnOf } from '../properties.ts';
import { eventColumnField, requireNames } from '../settings.ts';
import { defineTransform, field } from '../transform.ts';

export const filterEvents = defineTransform({
  id: 2,
  name: 'Filter events',
  description: 'Keeps or drops events by their name.',
  protects: false,
  fields: [
    field({ key: 'events', name: 'Events', required: true, hint: 'Names, comma separated.' }),
    field({
      key: 'mode',
      name: 'Action',
      type: 'choice',
      default: 'drop',
      choices: ['drop', 'keep'],
    }),
    eventColumnField,
  ],
  compile(config) {
    const names = new Set(requireNames(config, 'events'));
    const { mode, event_column: column = 'event' } = config;
    return (row) => {
      const isNamed = names.has(stringOf(columnOf(row, column)) ?? '');
      return isNamed === (mode === 'keep') ? row : null;
    };
  },
});
