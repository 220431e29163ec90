import { addParts, type Parts, readSources } from '../derived-properties.ts';
import { type JsonText, toJson } from '../json.ts';
import { anyColumnField, propertiesField, readNames } from '../settings.ts';
import { defineTransform, field, readAll } from '../transform.ts';

export const parseUrls = defineTransform({
  id: 13,
  name: 'Parse URLs',
  description: 'Adds the parts of URLs, and parameters of their query, as properties.',
  protects: false,
  fields: [
    { ...propertiesField, default: '$current_url' },
    field({
      key: 'parameters',
      name: 'Parameters',
      hint: 'Names of query parameters, comma separated.',
    }),
    anyColumnField,
  ],
  compile(config) {
    const { parameters, sources } = readAll({
      parameters: () => readNames(config, 'parameters'),
      sources: () => readSources(config),
    });
    return addParts(sources, (text) => partsOf(text, parameters));
  },
});

function partsOf(text: string, parameters: readonly string[]): Parts {
  const parts = new Map<string, JsonText>();
  if (!URL.canParse(text)) return parts;
  const url = new URL(text);
  const named: (readonly [string, string | null])[] = [
    ['scheme', url.protocol.slice(0, -1)],
    ['host', url.hostname],
    ['port', url.port],
    ['path', url.pathname],
    ['fragment', url.hash.slice(1)],
    ...parameters.map((name) => [`parameter_${name}`, url.searchParams.get(name)] as const),
  ];
  for (const [name, value] of named) if (value) parts.set(name, toJson(value));
  return parts;
}
