import { type Static, Type } from 'typebox';
import { OffsetPageOf } from '../lists.ts';
import {
  Flag,
  Int,
  Nullable,
  named,
  Part,
  Ref,
  Resource,
  Text,
  TextOrNull,
  Time,
} from '../shapes.ts';

const Int32 = { minimum: -2_147_483_648, maximum: 2_147_483_647, format: 'int32' };
const Id = Type.Integer({ ...Int32, minimum: 1 });

const Choices = Type.Array(
  Type.Unsafe<string | number | boolean>({ type: ['string', 'number', 'boolean'], maxLength: 400 }),
  { maxItems: 100 },
);

export const PluginField = Type.Object({
  key: Type.String({ pattern: '^[A-Za-z][A-Za-z0-9_]{0,99}$' }),
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 400 })),
  type: Type.Optional(Type.Enum(['string', 'choice', 'json'])),
  required: Type.Optional(Type.Boolean()),
  secret: Type.Optional(Flag('Stored encrypted, masked in answers.')),
  default: Type.Optional(Nullable(Type.String({ maxLength: 10_000 }))),
  hint: Type.Optional(Nullable(Type.String({ maxLength: 1_000 }))),
  choices: Type.Optional(Type.Array(Type.String({ maxLength: 400 }), { maxItems: 100 })),
});
export type PluginField = Static<typeof PluginField>;

/** An entry of `config` in a published plugin.json. Forms of other hosts write more into it than we read. */
const PublishedField = Type.Object(
  {
    ...PluginField.properties,
    key: Type.Optional(PluginField.properties.key),
    name: Type.Optional(Type.String({ maxLength: 400 })),
    type: Type.Optional(Type.Enum(['string', 'choice', 'json', 'attachment'])),
    default: Type.Optional(
      Type.Unsafe<unknown>({ description: 'A text. Anything else becomes its JSON.' }),
    ),
    choices: Type.Optional(Choices),
    options: Type.Optional(Choices),
  },
  { additionalProperties: true, description: 'Entries without a key are texts for a form.' },
);
export type PublishedField = Static<typeof PublishedField>;

const Settings = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  additionalProperties: true,
});

const Details = Part('The fields that are JSON in a string, as objects.', {
  config: Settings,
  config_schema: Type.Optional(
    Type.Array(PluginField, {
      description: 'The settings of the plugin. Absent in lists: plugins has it once.',
    }),
  ),
  plugin_info: Settings,
  delivery_rate_24h: Nullable(Type.Number()),
});

const shape = {
  id: Type.Integer(),
  plugin: Type.Integer(),
  enabled: Type.Boolean(),
  order: Type.Integer(),
  config: Text('JSON in a string; secrets are masked.'),
  error: TextOrNull('The last error of the step; null if it works.'),
  team_id: Type.Integer(),
  plugin_info: TextOrNull('JSON in a string.'),
  delivery_rate_24h: TextOrNull('Share of rows processed without error in the last 24 hours.'),
  created_at: Time,
  updated_at: Time,
  name: Nullable(Type.String()),
  description: Nullable(Type.String()),
  deleted: Type.Boolean(),
  match_action: Nullable(Type.Integer()),
  details: Details,
};

const example = {
  id: 12,
  plugin: 2,
  enabled: true,
  order: 1,
  config: '{"events":"$pageleave","mode":"drop"}',
  error: null,
  team_id: 1,
  plugin_info: '{"name":"Filter events"}',
  delivery_rate_24h: '0.9987',
  created_at: '2024-03-01T00:12:31.104233Z',
  updated_at: '2024-03-01T00:12:31.104233Z',
  name: 'Filter events',
  description: 'Keeps or drops events by their name.',
  deleted: false,
  match_action: null,
  details: {
    config: { events: '$pageleave', mode: 'drop' },
    config_schema: [],
    plugin_info: { name: 'Filter events' },
    delivery_rate_24h: 0.9987,
  },
};

export const TransformationConfig = named(
  'PipelineTransformationConfig',
  Type.Object(shape, {
    description: "A step of a project's transformation chain.",
    examples: [example],
  }),
);
export type TransformationConfig = Static<typeof TransformationConfig>;

const usedPlugin = {
  id: Type.Integer(),
  name: Type.String(),
  description: Nullable(Type.String()),
  url: Nullable(Type.String()),
  config_schema: Type.Array(PluginField),
  jobs: Type.Array(Type.Object({ type: Type.String(), description: Type.String() })),
};
const aboutPlugins = 'A transformation plugin. Transformation configs use it.';

const usedPlugins = {
  plugins: Type.Array(Type.Object(usedPlugin), {
    description:
      'Each plugin of these steps once, in full. Their plugin_info has its name, description and url.',
  }),
};

export const TransformationPage = Type.Object({
  ...OffsetPageOf(TransformationConfig).properties,
  ...usedPlugins,
  applied_by: Type.Object(
    {
      count: Int('Exports of the project whose transformations is true.'),
      exports: Int('All exports of the project.'),
      results: Type.Array(
        Type.Object({ id: Type.String({ format: 'uuid' }), name: Type.String() }),
        { description: 'The first 10 of those that apply the chain, by name.' },
      ),
    },
    {
      description:
        'Which exports apply the enabled steps. The rows of all others stay as they are.',
    },
  ),
});

export const RearrangedConfigs = Resource(
  'RearrangedTransformationConfigs',
  'The first moved config, and the chain in its order.',
  {
    ...shape,
    results: Type.Array(Ref(TransformationConfig), {
      description: 'The chain in its order, up to 1 MiB. Get the list for a longer one.',
    }),
    ...usedPlugins,
  },
);

const writable = {
  enabled: Type.Optional(Type.Boolean()),
  name: Type.Optional(Nullable(Type.String({ maxLength: 400 }))),
  description: Type.Optional(Nullable(Type.String({ maxLength: 1_000 }))),
  deleted: Type.Optional(Flag('true also disables the step; false undoes the deletion.')),
  match_action: Type.Optional(Nullable(Type.Integer(Int32))),
  config: Type.Optional(
    Type.Unsafe<string | Record<string, unknown>>({
      type: ['object', 'string'],
      additionalProperties: true,
      description: 'An object, or JSON in a string. It is merged; null removes a setting.',
    }),
  ),
};

export const CreateTransformationConfig = Type.Object({
  plugin: Id,
  order: Type.Integer(Int32),
  ...writable,
});

export const PatchTransformationConfig = Type.Object({
  plugin: Type.Optional(Id),
  order: Type.Optional(Type.Integer(Int32)),
  ...writable,
});

export const Rearrange = Type.Object({
  orders: Type.Optional(
    Type.Record(Type.String(), Type.Integer(Int32), {
      minProperties: 1,
      maxProperties: 1_000,
      description: 'New orders by the id of the config.',
    }),
  ),
  plugin: Type.Optional(Id),
  order: Type.Optional(Type.Integer(Int32)),
});

export const StartJob = Type.Object({
  job: Type.Optional(
    Type.Object({
      type: Type.String({ minLength: 1, maxLength: 100 }),
      payload: Type.Optional(Settings),
    }),
  ),
});

export const Plugin = Resource('Plugin', aboutPlugins, {
  ...usedPlugin,
  built_in: Flag('Shared by all organizations.'),
  source: TextOrNull('JavaScript; null if the plugin is built in, and in the list of a project.'),
  created_at: Nullable(Time),
  updated_at: Nullable(Time),
});
export type Plugin = Static<typeof Plugin>;

const pluginFields = {
  description: Type.Optional(Nullable(Type.String({ maxLength: 1_000 }))),
  url: Type.Optional(Nullable(Type.String({ maxLength: 1_000, pattern: '^https?://' }))),
  config_schema: Type.Optional(Type.Array(PublishedField, { maxItems: 100 })),
};
const PluginName = Type.String({ minLength: 1, maxLength: 400, pattern: '\\S' });
const Source = Type.String({
  minLength: 1,
  maxLength: 500_000,
  description: 'JavaScript that defines `processEvent(event, meta)`.',
});

export const CreatePlugin = Type.Object({ name: PluginName, source: Source, ...pluginFields });
export const PatchPlugin = Type.Object({
  name: Type.Optional(PluginName),
  source: Type.Optional(Source),
  ...pluginFields,
});
