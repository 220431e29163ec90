import { chooseProperties } from '../properties.ts';
import { anyColumnField, propertiesField } from '../settings.ts';
import { defineTransform } from '../transform.ts';

export const dropProperties = defineTransform({
  id: 1,
  name: 'Drop properties',
  description: 'Removes properties from each event.',
  protects: false,
  fields: [propertiesField, anyColumnField],
  compile(config) {
    const properties = chooseProperties(config);
    return (row) => properties.update(row, () => undefined);
  },
});
