import { spendPassed } from '../effort.ts';
import { type JsonText, mapScalars, stringOf, toJson } from '../json.ts';
import { chooseProperties } from '../properties.ts';
import { anyColumnField, propertiesField, readNames } from '../settings.ts';
import { defineTransform, field } from '../transform.ts';
import { stripUrl } from './strip-url.ts';

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
    const properties = chooseProperties(config);
    const keptParameters = new Set(readNames(config, 'keep_parameters'));
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
