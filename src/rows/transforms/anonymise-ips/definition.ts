import { type JsonText, jsonNull, mapScalars, stringOf, toJson } from '../json.ts';
import { chooseProperties } from '../properties.ts';
import { RowError } from '../row-error.ts';
import { anyColumnField, propertiesField } from '../settings.ts';
import { defineTransform, field } from '../transform.ts';
import { anonymiseIp } from './anonymise-ip.ts';

export const anonymiseIps = defineTransform({
  id: 11,
  name: 'Anonymise IP addresses',
  description: 'Keeps the network of an IP address: /24 of IPv4, /48 of IPv6.',
  protects: true,
  fields: [
    { ...propertiesField, default: '$ip' },
    field({
      key: 'otherwise',
      name: 'Values that are no IP address',
      type: 'choice',
      default: 'null',
      choices: ['null', 'reject'],
    }),
    anyColumnField,
  ],
  compile(config) {
    const properties = chooseProperties(config);
    const anonymise = (value: JsonText): JsonText => {
      const text = stringOf(value);
      if (value === jsonNull || text === '') return value;
      const network = anonymiseIp((text ?? '').trim());
      if (network !== null) return toJson(network);
      if (config.otherwise !== 'reject') return jsonNull;
      throw new RowError('A value is no IP address.');
    };
    return (row) => properties.update(row, (value) => mapScalars(value, anonymise));
  },
});
