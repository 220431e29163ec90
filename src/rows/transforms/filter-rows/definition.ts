import { JsonObject } from '../json.ts';
import { readMembers } from '../settings.ts';
import { defineTransform, field } from '../transform.ts';
import { compileCondition } from './condition.ts';

export const filterRows = defineTransform({
  id: 6,
  name: 'Filter rows',
  description: 'Keeps or drops rows by conditions on their columns and properties.',
  protects: false,
  fields: [
    field({
      key: 'condition',
      name: 'Condition',
      type: 'json',
      required: true,
      hint: '{"all": [{"column": "event", "is": "signup"}, {"property": "age", "gte": 18}]}',
    }),
    field({
      key: 'mode',
      name: 'What becomes of the rows that meet it',
      type: 'choice',
      default: 'keep',
      choices: ['keep', 'drop'],
    }),
  ],
  compile(config) {
    const condition = compileCondition(new JsonObject(readMembers(config, 'condition')));
    return (row) => (condition(row) === (config.mode !== 'drop') ? row : null);
  },
});
