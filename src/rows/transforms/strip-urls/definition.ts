import { spendPassed } from '../effort.ts';
import { type JsonText, mapScalars, stringOf, toJson } from '../json.ts';
import { chooseProperties } from '../properties.ts';
import { anyColumnField, propertiesField, readNames } from '../settings.ts';
import { defineTransform, field, readAll } from '../transform.ts';

/** Times as long as to pass over a character of JSON: a URL is split into its parts. */
const stripCost = 10;

export const stripUrls = defineTransform({
  id: 12,
  name: 'Strip URLs',
  description: 'Takes query parameters, user info and fragments out of URLs.',
  protects: true,
  fields: [
    { ...propertiesField, default: '$current_url, $referrer' },
    field({
      key: 'keep_parameters',
      name: 'Parameters that are kept',
      hint: 'Names, comma separated.',
    }),
    field({
      key: 'fragment',
      name: 'What follows #',
      type: 'choice',
      default: 'drop',
      choices: ['drop', 'keep'],
    }),
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

/**
 * A URL without user info, and without the query parameters that are not to be kept. It works on
 * the text, so that it strips what no parser takes for a URL as well: relative ones, cut ones.
 */
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
