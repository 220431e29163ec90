import { describe, expect, test } from 'vitest';
import {
  configOf,
  fieldsOf,
  isFirst,
  labelOf,
  type PropertySchema,
  valuesOf,
} from '../../../src/clients/console/form/fields.ts';
import { readDescription } from '../../../src/clients/console/form/openapi.ts';
import { inPlainWords } from '../../../src/clients/console/form/setting-words.ts';
import {
  fieldsOfPlugin,
  pluginOf,
  stepBodyOf,
  stepDraftOf,
  type StepPlugin,
} from '../../../src/clients/console/form/step-draft.ts';
import { labRowsOf } from '../../../src/clients/console/json.ts';
import { formatShare } from '../../../src/clients/console/numbers.ts';

const schema: PropertySchema = {
  type: 'object',
  required: ['bucket_name'],
  properties: {
    bucket_name: { type: 'string', description: 'The bucket.', examples: ['acme'] },
    secret_key: {
      anyOf: [{ type: 'string' }, { type: 'null' }],
      'x-default': null,
      writeOnly: true,
    },
    prefix: { type: 'string', 'x-default': '' },
    compression: { anyOf: [{ enum: ['gzip', 'zstd'] }, { type: 'null' }], 'x-default': null },
    max_file_size_mb: { type: ['integer', 'null'], minimum: 0, 'x-default': null },
    manifest: { type: 'boolean', 'x-default': true },
    include_events: {
      anyOf: [{ type: 'array', items: { type: 'string' } }, { type: 'null' }],
      'x-default': null,
    },
  },
};
const fields = fieldsOf(schema);
const create = { isNew: true, cleared: new Set<string>() };
const edit = { isNew: false, cleared: new Set<string>() };

describe('a schema becomes inputs', () => {
  test('of the kind that its type asks for', () => {
    expect(fields.map(({ name, kind, nullable }) => [name, kind, nullable])).toEqual([
      ['bucket_name', 'text', false],
      ['secret_key', 'secret', true],
      ['prefix', 'text', false],
      ['compression', 'choice', true],
      ['max_file_size_mb', 'number', true],
      ['manifest', 'flag', false],
      ['include_events', 'list', true],
    ]);
  });

  test('that each export needs come first: required ones, secrets and the format', () => {
    expect(fields.filter(isFirst).map(({ name }) => name)).toEqual(['bucket_name', 'secret_key']);
  });

  test.each([
    ['aws_access_key_id', 'AWS access key ID'],
    ['endpoint_url', 'Endpoint URL'],
    ['prefix', 'Prefix'],
  ])('%s is labelled %s', (name, label) => {
    expect(labelOf(name)).toBe(label);
  });
});

describe('the inputs become a config', () => {
  test('in which empty ones are left out of a new export', () => {
    const values = { ...valuesOf(fields, {}), bucket_name: 'acme' };
    expect(configOf(fields, values, create)).toEqual({ bucket_name: 'acme', manifest: true });
  });

  test('with numbers as numbers and a list of its lines', () => {
    const values = {
      ...valuesOf(fields, {}),
      bucket_name: 'acme',
      max_file_size_mb: '100',
      include_events: ' $pageview \n\nsigned_up',
    };
    expect(configOf(fields, values, create)).toMatchObject({
      max_file_size_mb: 100,
      include_events: ['$pageview', 'signed_up'],
    });
  });

  test('that is unchanged if nothing was edited, without its secrets', () => {
    const config = {
      bucket_name: 'acme',
      prefix: 'a',
      compression: null,
      max_file_size_mb: 5,
      manifest: false,
      include_events: ['x', 'y'],
    };
    expect(configOf(fields, valuesOf(fields, config), edit)).toEqual(config);
  });

  test('in which a change clears what was emptied', () => {
    const values = { ...valuesOf(fields, { bucket_name: 'acme', prefix: 'a' }), prefix: '' };
    expect(configOf(fields, values, edit)).toMatchObject({ prefix: '', compression: null });
  });

  test('with a secret if one was typed, and null if it is to be removed', () => {
    const values = valuesOf(fields, {});
    expect(configOf(fields, { ...values, secret_key: ' s3cret ' }, edit).secret_key).toBe('s3cret');
    const cleared = { isNew: false, cleared: new Set(['secret_key']) };
    expect(configOf(fields, values, cleared).secret_key).toBeNull();
  });
});

describe('the API’s description', () => {
  const body = (properties: object) => ({
    post: { requestBody: { content: { 'application/json': { schema: { properties } } } } },
  });

  test('lists the destinations and intervals', () => {
    const document = {
      paths: {
        '/api/projects/{project_id}/batch_exports': body({
          destination: { oneOf: [{ properties: { type: { enum: ['S3'] }, config: schema } }] },
          interval: { enum: ['hour', 'day'] },
        }),
      },
    };
    const description = readDescription(document);
    expect(description.destinations.map(({ type }) => type)).toEqual(['S3']);
    expect(description.destinations[0]?.fields).toEqual(fields.map(inPlainWords));
    expect(description.intervals).toEqual(['hour', 'day']);
  });

  test('may name its schemas rather than hold them, even in a circle', () => {
    const document = {
      paths: {
        '/api/projects/{project_id}/batch_exports': body({
          destination: {
            oneOf: [{ $ref: '#/components/schemas/S3' }, { $ref: '#/components/schemas/None' }],
          },
        }),
      },
      components: {
        schemas: {
          S3: {
            properties: { type: { const: 'S3' }, config: { $ref: '#/components/schemas/Config' } },
          },
          Config: { ...schema, not: { $ref: '#/components/schemas/Config' } },
        },
      },
    };
    const [s3] = readDescription(document).destinations;
    expect(s3).toMatchObject({ type: 'S3', fields: fields.map(inPlainWords) });
  });

  test('may be of another shape without a fault', () => {
    expect(readDescription({}).destinations).toEqual([]);
  });
});

describe('the form of a step', () => {
  const plugin: StepPlugin = {
    id: 3,
    name: 'Hash',
    description: 'Hashes.',
    config_schema: [
      { key: 'properties', name: 'Properties', required: true },
      { key: 'salt', required: true, secret: true },
      { key: 'mode', type: 'choice', choices: ['keep', 'drop'], default: 'keep', required: true },
      { key: 'rules', type: 'json', default: '{}', hint: 'An object.' },
      { key: 'level', type: 'choice', choices: ['a', 'b'] },
    ],
  };

  test('has an input of the right kind for each setting', () => {
    const kinds = fieldsOfPlugin(plugin).map(({ label, kind, required }) => [
      label,
      kind,
      required,
    ]);
    expect(kinds).toEqual([
      ['Properties', 'text', true],
      ['salt', 'secret', true],
      ['mode', 'choice', false],
      ['rules', 'json', false],
      ['level', 'choice', false],
    ]);
  });

  test('begins with the defaults, and omits what is empty', () => {
    const { values, cleared } = stepDraftOf(plugin, null);
    expect(configOf(fieldsOfPlugin(plugin), values, { isNew: true, cleared })).toEqual({
      mode: 'keep',
      rules: '{}',
    });
  });

  test('a change keeps an untouched secret, and sets emptied settings back', () => {
    const draft = stepDraftOf(plugin, null);
    const values = { ...draft.values, properties: 'email', rules: '' };
    expect(stepBodyOf(plugin, { ...draft, values }, false)).toEqual({
      name: '',
      description: '',
      enabled: false,
      config: { properties: 'email', mode: 'keep', rules: null, level: null },
    });
    const cleared = new Set(['salt']);
    expect(stepBodyOf(plugin, { ...draft, values, cleared }, false).config).toMatchObject({
      salt: null,
    });
  });

  test('shows a name only if it is not the name of the plugin', () => {
    const details = {
      config: { salt: '********' },
      config_schema: plugin.config_schema,
      plugin_info: { name: 'Hash', description: 'Hashes.' },
      delivery_rate_24h: null,
    };
    const step = { id: 1, plugin: 3, enabled: true, order: 1, config: '', error: null, team_id: 1 };
    const stored = {
      ...step,
      plugin_info: null,
      delivery_rate_24h: null,
      created_at: '',
      updated_at: '',
      name: 'Hash',
      description: 'Mine',
      deleted: false,
      match_action: null,
      details,
    };
    expect(pluginOf(stored)).toEqual(plugin);
    const { name, description, enabled, values } = stepDraftOf(plugin, stored);
    expect([name, description, enabled, values.salt]).toEqual(['', 'Mine', 'yes', '']);
  });
});

test.each([
  ['{"a": 1}', [{ a: 1 }]],
  ['[{"a": 1}, {"b": 2}]', [{ a: 1 }, { b: 2 }]],
  ['{"a": 1}\n\n{"b": 2}\n', [{ a: 1 }, { b: 2 }]],
  ['', null],
  ['[]', null],
  ['[1]', null],
  ['{"a": 1}\n{"b"', null],
])('the rows of %j', (text, rows) => {
  expect(labRowsOf(text)).toEqual(rows);
});

test('a share that is less than all is never shown as 100%', () => {
  expect([1, 0.999_999, 0.5, 0].map(formatShare)).toEqual(['100%', '99.99%', '50%', '0%']);
});
