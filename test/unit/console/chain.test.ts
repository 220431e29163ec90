import { describe, expect, test } from 'vitest';
import { configOf } from '../../../src/clients/console/form/fields.ts';
import {
  fieldsOfPlugin,
  pluginOf,
  type StepPlugin,
  stepBodyOf,
  stepDraftOf,
} from '../../../src/clients/console/form/step-draft.ts';
import { labRowsOf } from '../../../src/clients/console/json.ts';
import { formatShare } from '../../../src/clients/console/numbers.ts';

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
