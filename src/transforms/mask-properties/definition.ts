import { type Json, jsonNull, kindOf, listOf, plainOf, toJson } from '../json.ts';
import { chooseProperties } from '../properties.ts';
import { anyColumnField, propertiesField, readNumber } from '../settings.ts';
import { defineTransform, field } from '../transform.ts';

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
    const properties = chooseProperties(config);
    const first = readNumber(config, 'keep_first', shown);
    const last = readNumber(config, 'keep_last', shown);
    const mask = (value: Json): Json => {
      if (value === jsonNull) return value;
      const characters = kindOf(value) === 'object' ? [] : [...plainOf(value)];
      const isShort = characters.length <= first + last;
      const start = isShort ? [] : characters.slice(0, first);
      const end = isShort ? [] : characters.slice(characters.length - last);
      return toJson(`${start.join('')}***${end.join('')}`);
    };
    return (row) => properties.update(row, (value) => listOf(value)?.map(mask) ?? mask(value));
  },
});
