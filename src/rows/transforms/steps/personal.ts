import { createHmac } from 'node:crypto';
import { isIPv4, isIPv6 } from 'node:net';
import type { PluginConfig } from '../../../foundation/domain/plugin.ts';
import { RowError, spendPassed } from '../effort.ts';
import {
  type Json,
  jsonNull,
  type JsonText,
  kindOf,
  listOf,
  mapScalars,
  plainOf,
  stringOf,
  toJson,
} from '../json.ts';
import { chooseProperties } from '../properties.ts';
import {
  anyColumnField,
  choiceField,
  defineTransform,
  field,
  InvalidSetting,
  propertiesField,
  readAll,
  readNames,
  readNumber,
} from '../transform.ts';

export const hashProperties = defineTransform({
  id: 3,
  name: 'Hash properties',
  description: 'Replaces personal properties with a keyed hash.',
  protects: true,
  fields: [
    propertiesField,
    field('salt', 'Salt', {
      required: true,
      secret: true,
      hint: 'Do not change it: another salt gives other hashes.',
    }),
    anyColumnField,
  ],
  compile(config) {
    const { properties, salt } = readAll({
      properties: () => chooseProperties(config),
      salt: () => requireSalt(config),
    });
    const hash = (value: Json): Json =>
      value === jsonNull
        ? value
        : toJson(createHmac('sha256', salt).update(plainOf(value)).digest('hex'));
    return (row) => properties.update(row, (value) => listOf(value)?.map(hash) ?? hash(value));
  },
});

/** Also for a stored config: an empty key would make hashes that anyone can make. */
function requireSalt({ salt }: PluginConfig): string {
  if (!salt) throw new InvalidSetting('salt', 'Write a secret text, and keep it the same.');
  return salt;
}

const shown = { from: 0, to: 100, whole: true };

export const maskProperties = defineTransform({
  id: 10,
  name: 'Mask properties',
  description: 'Replaces personal properties, or the middle of them, with ***.',
  protects: true,
  fields: [
    propertiesField,
    field('keep_first', 'Characters kept at the start', { default: '0' }),
    field('keep_last', 'Characters kept at the end', { default: '0' }),
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

export const anonymiseIps = defineTransform({
  id: 11,
  name: 'Anonymise IP addresses',
  description: 'Keeps the network of an IP address: /24 of IPv4, /48 of IPv6.',
  protects: true,
  fields: [
    { ...propertiesField, default: '$ip' },
    choiceField('otherwise', 'Values that are no IP address', ['null', 'reject']),
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

/** /24 of IPv4, also of one that is mapped into IPv6, /48 of IPv6. Null for what is no address. */
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

/** Times as long as to pass over a character of JSON: a URL is split into its parts. */
const stripCost = 10;

export const stripUrls = defineTransform({
  id: 12,
  name: 'Strip URLs',
  description: 'Takes query parameters, user info and fragments out of URLs.',
  protects: true,
  fields: [
    { ...propertiesField, default: '$current_url, $referrer' },
    field('keep_parameters', 'Parameters that are kept', { hint: 'Names, comma separated.' }),
    choiceField('fragment', 'What follows #', ['drop', 'keep']),
    anyColumnField,
  ],
  compile(config) {
    const { properties, keptParameters } = readAll({
      properties: () => chooseProperties(config),
      keptParameters: () => new Set(readNames(config, 'keep_parameters')),
    });
    const keepsFragment = config.fragment === 'keep';
    const strip = (value: JsonText): JsonText => {
      const text = stringOf(value);
      if (text === null) return value;
      spendPassed(stripCost * text.length);
      const stripped = stripUrl(text, keptParameters, keepsFragment);
      return stripped === text ? value : toJson(stripped);
    };
    return (row) => properties.update(row, (value) => mapScalars(value, strip));
  },
});

/** Also without what is not to be kept of the query. It strips relative and cut ones, which no parser takes, as well. */
function stripUrl(
  url: string,
  keptParameters: ReadonlySet<string>,
  keepsFragment: boolean,
): string {
  // Parsers of URLs leave these out wherever they are.
  const text = url.replace(/[\t\r\n]/g, '');
  const [beforeFragment, fragment] = cut(text, '#');
  const [address, query] = cut(beforeFragment, '?');
  const parameters = (query ?? '')
    .split('&')
    .filter((parameter) => keptParameters.has(nameOf(parameter)));
  const keptQuery = parameters.length > 0 ? `?${parameters.join('&')}` : '';
  const keptFragment = keepsFragment && fragment !== undefined ? `#${fragment}` : '';
  return stripUserInfo(address) + keptQuery + keptFragment;
}

function cut(text: string, at: string): readonly [string, string | undefined] {
  const position = text.indexOf(at);
  return position < 0 ? [text, undefined] : [text.slice(0, position), text.slice(position + 1)];
}

function nameOf(parameter: string): string {
  const [name] = cut(parameter, '=');
  try {
    return decodeURIComponent(name.replaceAll('+', ' '));
  } catch {
    return name;
  }
}

/** Browsers take `\` for `/`, and one slash or none for two: each part that may be the host is stripped. */
function stripUserInfo(address: string): string {
  const parts = address.split(/([\\/])/);
  return parts
    .map((part, index) => {
      const before = parts[index - 2] ?? ':';
      const mayBeHost = before.endsWith(':') || (before === '' && index > 2);
      return mayBeHost ? part.slice(part.lastIndexOf('@') + 1) : part;
    })
    .join('');
}
