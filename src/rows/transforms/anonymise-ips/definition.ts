import { isIPv4, isIPv6 } from 'node:net';
import { jsonNull, type JsonText, mapScalars, stringOf, toJson } from '../json.ts';
import { chooseProperties } from '../properties.ts';
import { RowError } from '../row-error.ts';
import { anyColumnField, propertiesField } from '../settings.ts';
import { defineTransform, field } from '../transform.ts';

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

/**
 * The first address of the network: /24 of IPv4, also of one that is mapped into IPv6, /48 of
 * IPv6. Null for what is no address.
 */
function anonymiseIp(text: string): string | null {
  if (isIPv4(text)) return text.replace(/\d+$/, '0');
  const [address = ''] = text.split('%');
  if (!isIPv6(text)) return null;
  const groups = expand(address);
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  if (isMapped) {
    const [high = 0, low = 0] = groups.slice(6);
    return `${high >> 8}.${high & 255}.${low >> 8}.0`;
  }
  const network = groups.slice(0, 3);
  while (network.at(-1) === 0) network.pop();
  return `${network.map((group) => group.toString(16)).join(':')}::`;
}

/** The eight groups of a valid IPv6 address. */
function expand(address: string): number[] {
  const [head = '', tail] = address.split('::');
  const before = groupsOf(head);
  const after = groupsOf(tail ?? '');
  const missing = tail === undefined ? 0 : 8 - before.length - after.length;
  return [...before, ...Array<number>(missing).fill(0), ...after];
}

function groupsOf(text: string): number[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [Number.parseInt(group, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number);
    return [(a << 8) | b, (c << 8) | d];
  });
}
