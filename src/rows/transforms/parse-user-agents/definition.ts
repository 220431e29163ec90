import { parse } from 'bowser';
import { addParts, type Parts, readSources } from '../derived-properties.ts';
import { type JsonText, toJson } from '../json.ts';
import { remember } from '../remember.ts';
import { anyColumnField, propertiesField } from '../settings.ts';
import { defineTransform } from '../transform.ts';

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
  const parts = new Map<string, JsonText>();
  if (text === '') return parts;
  const { browser, os, platform } = parse(text.slice(0, maxLength));
  const named = {
    browser: browser.name,
    browser_version: browser.version,
    os: os.name,
    os_version: os.versionName ?? os.version,
    device: platform.type,
    device_vendor: platform.vendor,
    device_model: platform.model,
  };
  for (const [name, value] of Object.entries(named)) if (value) parts.set(name, toJson(value));
  return parts;
}
