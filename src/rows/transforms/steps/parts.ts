import { parse } from 'bowser';
import { parseTime } from '../../../foundation/domain/parse-time.ts';
import type { PluginConfig } from '../../../foundation/domain/plugin.ts';
import { type JsonText, kindOf, plainOf, toJson } from '../json.ts';
import { editColumn, type Properties, propertiesOf } from '../properties.ts';
import { remember } from '../remember.ts';
import {
  anyColumnField,
  type Apply,
  defineTransform,
  field,
  propertiesField,
  readAll,
  readNames,
  requireNames,
} from '../transform.ts';

/** By name: `host`, `path`. An empty one is not added. A bigint is a number of any length. */
type Parts = Readonly<Record<string, string | number | bigint | null | undefined>>;

interface Sources {
  readonly column: string;
  readonly properties: readonly Properties[];
}

function readSources(config: PluginConfig): Sources {
  const column = config.column ?? 'properties';
  const names = requireNames(config, 'properties');
  return { column, properties: names.map((name) => propertiesOf([name], column)) };
}

/** `url` gives `url__host`; out of a column, into `properties`. @param read gives no parts for a text that has none */
function addParts({ column, properties }: Sources, read: (text: string) => Parts): Apply {
  return (row) => {
    const added = properties.flatMap((source) => {
      const [value] = source.read(row);
      const isText = value !== undefined && ['string', 'number'].includes(kindOf(value));
      const parts = Object.entries(isText ? read(plainOf(value)) : {});
      return parts.flatMap(([part, found]): [string, JsonText][] => {
        if (found === undefined || found === null || found === '') return [];
        const text = typeof found === 'bigint' ? (String(found) as JsonText) : toJson(found);
        return [[`${source.names[0]}__${part}`, text]];
      });
    });
    if (added.length === 0) return row;
    return editColumn(row, column === '*' ? 'properties' : column, (holder) => holder.with(added));
  };
}

export const parseUrls = defineTransform({
  id: 13,
  name: 'Parse URLs',
  description: 'Adds the parts of URLs, and parameters of their query, as properties.',
  protects: false,
  fields: [
    { ...propertiesField, default: '$current_url' },
    field('parameters', 'Parameters', { hint: 'Names of query parameters, comma separated.' }),
    anyColumnField,
  ],
  compile(config) {
    const { parameters, sources } = readAll({
      parameters: () => readNames(config, 'parameters'),
      sources: () => readSources(config),
    });
    return addParts(sources, (text) => partsOfUrl(text, parameters));
  },
});

function partsOfUrl(text: string, parameters: readonly string[]): Parts {
  if (!URL.canParse(text)) return {};
  const { protocol, hostname, port, pathname, hash, searchParams } = new URL(text);
  return {
    scheme: protocol.slice(0, -1),
    host: hostname,
    port,
    path: pathname,
    fragment: hash.slice(1),
    ...Object.fromEntries(parameters.map((name) => [`parameter_${name}`, searchParams.get(name)])),
  };
}

export const parseTimestamps = defineTransform({
  id: 14,
  name: 'Parse timestamps',
  description:
    'Adds year, month, day, hour, minute and weekday of timestamps as properties, in UTC.',
  protects: false,
  fields: [propertiesField, anyColumnField],
  compile: (config) => addParts(readSources(config), partsOfTime),
});

const dayMs = 86_400_000;

function partsOfTime(text: string): Parts {
  const timestamp = parseTime(text)?.timestamp;
  if (timestamp === undefined) return {};
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0] = timestamp.split(/[-T:]/).map(Number);
  // 1970 began on a Thursday. 1 is Monday, as in ISO 8601.
  const days = Math.floor(Date.parse(timestamp) / dayMs);
  const weekday = ((((days + 3) % 7) + 7) % 7) + 1;
  return { year, month, day, hour, minute, weekday };
}

export const parseUserAgents = defineTransform({
  id: 15,
  name: 'Parse user agents',
  description: 'Adds browser, operating system and device of user agents as properties.',
  protects: false,
  fields: [{ ...propertiesField, default: '$raw_user_agent' }, anyColumnField],
  compile: (config) => addParts(readSources(config), remember(partsOfUserAgent)),
});

/** Nothing beyond it says more about the browser, and the library's patterns are slow on long texts. */
const maxLength = 500;

function partsOfUserAgent(text: string): Parts {
  if (text === '') return {};
  const { browser, os, platform } = parse(text.slice(0, maxLength));
  return {
    browser: browser.name,
    browser_version: browser.version,
    os: os.name,
    os_version: os.versionName ?? os.version,
    device: platform.type,
    device_vendor: platform.vendor,
    device_model: platform.model,
  };
}

export const parseVersions = defineTransform({
  id: 16,
  name: 'Parse versions',
  description:
    'Adds major, minor, patch, pre-release and build of semantic versions as properties.',
  protects: false,
  fields: [propertiesField, anyColumnField],
  compile: (config) => addParts(readSources(config), partsOfVersion),
});

const number = '(0|[1-9]\\d{0,15})';
const labels = '([0-9A-Za-z.-]+)';
const version = new RegExp(
  `^v?${number}(?:\\.${number}(?:\\.${number})?)?(?:-${labels})?(?:\\+${labels})?$`,
);

function partsOfVersion(text: string): Parts {
  const [, major, minor, patch, preRelease, build] = version.exec(text.trim()) ?? [];
  const numbers = Object.entries({ major, minor, patch }).map(([name, digits]) => [
    name,
    digits && BigInt(digits),
  ]);
  return { ...Object.fromEntries(numbers), pre_release: preRelease, build };
}
