import { type Json, jsonNull, kindOf, listOf, plainOf, toJson } from '../json.ts';
import { chooseProperties } from '../properties.ts';
import { anyColumnField, propertiesField, readNumber } from '../settings.ts';
import { defineTransform, field, readAll } from '../transform.ts';

const shown = { from: 0, to: 100, whole: true };

export const maskProperties = defineTransform({
  id: 10,
  name: 'Mask properties',
  description: 'Replaces personal properties, or the middle of them, with ***.',
  protects: true,
  fields: [
    propertiesField,
    field({ key: 'keep_first', name: 'Characters kept at the start', default: '0' }),
    field({ key: 'keep_last', name: 'Characters kept at the end', default: '0' }),
    anyColumnField,
  ],
  compile(config) {
    const { properties, first, last } = readAll({
      properties: () => chooseProperties(config),
      first: () => readNumber(config, 'keep_first', shown),
      last: () => readNumber(config, 'keep_last', shown),
    });
    const mask = (value: Json): Json => {
      if (value === jsonNull) return value;
      const text = kindOf(value) === 'object' ? '' : plainOf(value);
      // A character has one or two units. Of a long text only its ends are looked at.
      const isLong = text.length > 2 * (first + last);
      const isShort = !isLong && [...text].length <= first + last;
      if (isShort) return toJson('***');
      const start = [...text.slice(0, 2 * first)].slice(0, first);
      const end = last === 0 ? [] : [...text.slice(-2 * last - 1)].slice(-last);
      return toJson(`${start.join('')}***${end.join('')}`);
    };
    return (row) => properties.update(row, (value) => listOf(value)?.map(mask) ?? mask(value));
  },
});
