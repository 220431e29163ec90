import type { Plugin, PluginField } from './plugin.ts';

const field = (given: Partial<PluginField> & Pick<PluginField, 'key' | 'name'>): PluginField => ({
  type: 'string',
  required: false,
  secret: false,
  default: null,
  hint: null,
  choices: [],
  ...given,
});

const builtIn = (given: Omit<Plugin, 'organizationId' | 'url' | 'jobs'>): Plugin => ({
  organizationId: null,
  url: null,
  jobs: [],
  ...given,
});

/** Plugins of every installation, with ids below 1000. An id is never given to another plugin. */
export const builtInPlugins: readonly Plugin[] = [
  builtIn({
    id: 1,
    name: 'Drop properties',
    description: 'Removes properties from each event.',
    configSchema: [
      field({
        key: 'properties',
        name: 'Properties',
        required: true,
        hint: 'Names, comma separated.',
      }),
    ],
  }),
  builtIn({
    id: 2,
    name: 'Filter events',
    description: 'Keeps or drops events by their name.',
    configSchema: [
      field({ key: 'events', name: 'Events', required: true, hint: 'Names, comma separated.' }),
      field({
        key: 'mode',
        name: 'Action',
        type: 'choice',
        default: 'drop',
        choices: ['drop', 'keep'],
      }),
    ],
  }),
  builtIn({
    id: 3,
    name: 'Hash properties',
    description: 'Replaces personal properties with a keyed hash.',
    configSchema: [
      field({
        key: 'properties',
        name: 'Properties',
        required: true,
        hint: 'Names, comma separated.',
      }),
      field({
        key: 'salt',
        name: 'Salt',
        required: true,
        secret: true,
        hint: 'Do not change it: another salt gives other hashes.',
      }),
    ],
  }),
  builtIn({
    id: 4,
    name: 'Rename properties',
    description: 'Renames properties.',
    configSchema: [
      field({
        key: 'names',
        name: 'Names',
        type: 'json',
        required: true,
        hint: '{"old name": "new name"}',
      }),
    ],
  }),
  builtIn({
    id: 5,
    name: 'Flatten properties',
    description: 'Moves nested properties to the top level and joins their names.',
    configSchema: [
      field({
        key: 'separator',
        name: 'Separator',
        type: 'choice',
        default: '__',
        choices: ['__', '.', '/'],
      }),
    ],
  }),
];
