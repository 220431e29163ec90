import { addParts } from '../derived-properties.ts';
import { remember } from '../remember.ts';
import { anyColumnField, propertiesField } from '../settings.ts';
import { defineTransform } from '../transform.ts';
import { partsOfUserAgent } from './user-agent.ts';

export const parseUserAgents = defineTransform({
  id: 15,
  name: 'Parse user agents',
  description: 'Adds browser, operating system and device of user agents as properties.',
  protects: false,
  fields: [{ ...propertiesField, default: '$raw_user_agent' }, anyColumnField],
  compile: (config) => addParts(config, remember(partsOfUserAgent)),
});
