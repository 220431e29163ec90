import { type Json, jsonNull, stringOf } from '../json.ts';
import { propertiesOf } from '../properties.ts';
import { RowError } from '../row-error.ts';
import { columnField, readMembers } from '../settings.ts';
import { defineTransform, field, InvalidSetting } from '../transform.ts';
import { casts } from './casts.ts';

const types = Object.keys(casts).join(', ');

export const castProperties = defineTransform({
  id: 9,
  name: 'Cast properties',
  description: 'Gives the values of properties another type.',
  protects: false,
  fields: [
    field({
      key: 'types',
      name: 'Types',
      type: 'json',
      required: true,
      hint: `{"price": "number"}. Types: ${types}.`,
    }),
    field({
      key: 'otherwise',
      name: 'Values that do not fit the type',
      type: 'choice',
      default: 'error',
      choices: ['error', 'null', 'keep'],
    }),
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
