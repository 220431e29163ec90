import { type Json, type JsonText, mapScalars, objectOf, stringOf, toJson } from '../json.ts';
import { chooseProperties, editColumn } from '../properties.ts';
import { anyColumnField, propertiesField, readNames, readNumber } from '../settings.ts';
import { defineTransform, field, readAll } from '../transform.ts';

export const truncateValues = defineTransform({
  id: 18,
  name: 'Truncate values',
  description: 'Cuts long texts off.',
  protects: false,
  fields: [
    field({ key: 'max_length', name: 'Maximum length in characters', default: '1000' }),
    {
      ...propertiesField,
      required: false,
      hint: 'Names, comma separated. Leave empty for all of the column.',
    },
    anyColumnField,
  ],
  compile(config) {
    const { column = 'properties' } = config;
    const { maxLength, properties } = readAll({
      maxLength: () => readNumber(config, 'max_length', { from: 1, to: 1_000_000, whole: true }),
      properties: () =>
        readNames(config, 'properties').length > 0 || column === '*'
          ? chooseProperties(config)
          : null,
    });
    const truncate = (value: Json) => mapScalars(value, (scalar) => cutOff(scalar, maxLength));
    if (properties) return (row) => properties.update(row, truncate);
    return (row) => editColumn(row, column, (holder) => objectOf(truncate(holder)) ?? holder);
  },
});

function cutOff(value: JsonText, maxLength: number): JsonText {
  // The quotes take two; escapes only make it longer.
  if (value.length - 2 <= maxLength) return value;
  const text = stringOf(value);
  if (text === null || text.length <= maxLength) return value;
  // A character of two units is kept whole or cut off whole.
  const end = /[\uD800-\uDBFF]/.test(text.charAt(maxLength - 1)) ? maxLength - 1 : maxLength;
  return toJson(text.slice(0, end));
}
