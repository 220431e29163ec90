import { describe, expect, test } from 'vitest';
import type { BatchExport } from '../../../src/clients/console/api-types.ts';
import { checkDraft, withIncomplete } from '../../../src/clients/console/form/check-draft.ts';
import {
  bodyOf,
  draftOf,
  hasSetting,
  modelChoices,
  rowsOf,
} from '../../../src/clients/console/form/draft.ts';
import { fieldsOf, type PropertySchema } from '../../../src/clients/console/form/fields.ts';
import {
  applies,
  choicesOf,
  isSent,
  withFormat,
} from '../../../src/clients/console/form/file-settings.ts';
import { inFormWords, labelsOf } from '../../../src/clients/console/form/form-words.ts';
import { type ApiDescription, offered } from '../../../src/clients/console/form/openapi.ts';
import { createTimeFormat } from '../../../src/clients/console/times.ts';

const times = createTimeFormat('en', 'UTC');
const days = { anyOf: [{ type: 'integer', minimum: 1, maximum: 2 }, { type: 'null' }] };
const config: PropertySchema = {
  required: ['bucket_name'],
  properties: {
    bucket_name: { type: 'string' },
    aws_access_key_id: { type: ['string', 'null'], writeOnly: true },
    file_format: { enum: ['JSONLines', 'CSV', 'Parquet'], 'x-default': 'JSONLines' },
    compression: { anyOf: [{ enum: ['gzip', 'snappy'] }, { type: 'null' }], 'x-default': null },
    csv_arrays: { enum: ['json', 'postgres'], 'x-default': 'json' },
    snapshot_retention_days: { ...days, 'x-default': null } as PropertySchema,
    decimal_columns: { anyOf: [{ type: 'array' }, { type: 'null' }], 'x-default': null },
    json_null: { enum: ['keep', 'null'], 'x-default': 'keep' },
    include_events: { anyOf: [{ type: 'array' }, { type: 'null' }], 'x-default': null },
  },
};
const formats = [
  { format: 'JSONLines', compressions: ['gzip'] },
  { format: 'Parquet', compressions: ['gzip', 'snappy'] },
];
const description: ApiDescription = {
  installation: {
    destinations: ['S3'],
    models: [{ name: 'events', event_filters: true, modes: ['append', 'snapshot', 'changes'] }],
    default_model: 'events',
    intervals: ['day', 'week'],
    file_formats: formats,
    own_credentials: false,
    private_endpoints: false,
    max_exports_per_project: 10,
  },
  destinations: [
    { type: 'File', description: '', fields: [] },
    { type: 'S3', description: '', fields: fieldsOf(config) },
  ],
  settings: fieldsOf({
    properties: {
      deadline_at: { type: ['string', 'null'], title: 'Due at', 'x-input': 'time' },
      heal_for_hours: { type: 'integer', minimum: 0, maximum: 720, 'x-default': 168 },
      mode: { enum: ['append', 'snapshot', 'changes'], 'x-default': 'append' },
      keep_snapshots: { type: 'integer', 'x-default': 30 },
    },
  }).map((field) => ({ ...field, isLocal: field.name === 'deadline_at' })),
  intervals: ['hour', 'day', 'week'],
};
const fresh = draftOf(description, null, times);
const withValues = (values: Readonly<Record<string, string | boolean>>) => ({
  ...fresh,
  name: 'a',
  values: { ...fresh.values, bucket_name: 'acme', ...values },
});
const configOf = (values: Readonly<Record<string, string | boolean>>) =>
  bodyOf(description, withValues(values), null, times).destination.config;

test('a model that does not allow the chosen mode gets one that it allows, and no setting of another', () => {
  const installation = description.installation && {
    ...description.installation,
    models: [
      ...description.installation.models,
      { name: 'orders', event_filters: false, modes: ['snapshot', 'changes'] as const },
    ],
  };
  const bodyWith = (model: string, settings: object) =>
    bodyOf(
      { ...description, installation },
      { ...withValues({}), model, backfill: true, startAt: '2024-03-01T00:00', ...settings },
      null,
      times,
    );
  const settings = { ...fresh.settings, keep_snapshots: '5' };
  expect(bodyWith('orders', { settings })).toMatchObject({
    ...{ mode: 'snapshot', keep_snapshots: 5, backfill: false },
  });
  const appended = bodyWith('events', { settings });
  expect(appended).toMatchObject({ mode: 'append', backfill: true });
  expect(appended).not.toHaveProperty('keep_snapshots');
});

describe('what an installation has', () => {
  test('is what a new export begins with', () => {
    expect([fresh.type, fresh.interval]).toEqual(['S3', 'day']);
  });

  test('is offered, and what an export already uses', () => {
    expect(offered(['S3', 'File'], ['S3'], '')).toEqual(['S3']);
    expect(offered(['S3', 'File'], ['S3'], 'File')).toEqual(['S3', 'File']);
    expect(offered(['S3', 'File'], undefined, '')).toEqual(['S3', 'File']);
  });

  test('decides which compressions a format has; a change of format drops another', () => {
    const compression = { name: 'compression', choices: ['gzip', 'snappy'] };
    expect(choicesOf(compression, { file_format: 'JSONLines' }, formats)).toEqual(['gzip']);
    const values = { file_format: 'Parquet', compression: 'snappy' };
    expect(withFormat(values, 'JSONLines', formats).compression).toBe('');
    expect(withFormat({ ...values, compression: 'gzip' }, 'JSONLines', formats).compression).toBe(
      'gzip',
    );
  });
});

describe('a setting without an effect', () => {
  test('is not shown', () => {
    expect(applies({ name: 'csv_arrays' }, { file_format: 'Parquet' })).toBe(false);
    expect(applies({ name: 'csv_arrays' }, { file_format: 'CSV' })).toBe(true);
    const decimals = { name: 'decimal_columns' };
    expect(applies(decimals, { file_format: 'CSV' })).toBe(false);
    expect(applies(decimals, { file_format: 'Parquet' })).toBe(true);
    expect(applies({ name: 'bucket_name' }, {})).toBe(true);
  });

  test('is not sent, but set back if the API would refuse it', () => {
    const chosen = { csv_arrays: 'postgres', json_null: 'null' };
    expect(configOf({ ...chosen, file_format: 'CSV' })).toMatchObject(chosen);
    const json = configOf({ ...chosen, file_format: 'JSONLines' });
    expect(json).toMatchObject({ csv_arrays: 'json' });
    expect(json).not.toHaveProperty('json_null');
    const decimals = { decimal_columns: 'a decimal(9,2)', file_format: 'Parquet' };
    expect(configOf(decimals).decimal_columns).toEqual(['a decimal(9,2)']);
    expect(configOf({ ...decimals, file_format: 'CSV' })).not.toHaveProperty('decimal_columns');
    expect(isSent({ name: 'decimal_columns' }, { file_format: 'CSV' })).toBe(true);
    expect(isSent({ name: 'json_null' }, { file_format: 'JSONLines' })).toBe(false);
  });
});

test('a choice of numbers is sent as a number', () => {
  const [field] = fieldsOf(config).filter(({ name }) => name === 'snapshot_retention_days');
  expect(field).toMatchObject({ kind: 'choice', choices: ['1', '2'] });
  expect(configOf({ snapshot_retention_days: '1' }).snapshot_retention_days).toBe(1);
  expect(configOf({})).not.toHaveProperty('snapshot_retention_days');
});

test('a preview sends what decides the rows, and no secret', () => {
  const draft = withValues({ include_events: 'a\nb', aws_access_key_id: 'AKIA' });
  expect(rowsOf(bodyOf(description, draft, null, times))).toEqual({
    model: 'events',
    mode: 'append',
    dsl_query: null,
    transformations: false,
    destination: { config: { include_events: ['a', 'b'], exclude_events: undefined } },
  });
});

test('a changed query that has the conditions of filters is sent without the filters', () => {
  const stored = {
    destination: { type: 'S3', config: {} },
    dsl_query: 'select 1',
    filters: [{ key: 'a' }],
  };
  const batchExport = stored as unknown as BatchExport;
  const draft = draftOf(description, batchExport, times);
  expect(bodyOf(description, draft, batchExport, times)).not.toHaveProperty('filters');
  const changed = { ...draft, dslQuery: 'select 2' };
  expect(bodyOf(description, changed, batchExport, times)).toMatchObject({
    ...{ dsl_query: 'select 2', filters: null },
  });
  const without = { ...batchExport, filters: null };
  expect(bodyOf(description, changed, without, times)).not.toHaveProperty('filters');
});

describe('the model', () => {
  const models = ['orders', 'constructor'].map((name) => ({
    name,
    event_filters: false,
    modes: [],
  }));
  const installation = { ...description.installation, models, default_model: null } as const;
  const here = { ...description, installation } as ApiDescription;

  test('is asked for if the installation has no default, and is not sent before it is chosen', () => {
    const draft = draftOf(here, null, times);
    expect(modelChoices(here, draft.model)).toEqual([
      ['', 'Choose…'],
      ['orders', 'orders'],
      ['constructor', 'constructor'],
    ]);
    expect(bodyOf(here, draft, null, times)).not.toHaveProperty('model');
    const chosen = { ...draft, model: 'constructor' };
    expect(bodyOf(here, chosen, null, times)).toMatchObject({ model: 'constructor' });
    expect(modelChoices(here, chosen.model).map(([name]) => name)).toEqual([
      'orders',
      'constructor',
    ]);
  });

  test('of an export stays a choice after the installation has lost it', () => {
    expect(modelChoices(here, 'gone').map(([name]) => name)).toEqual([
      'gone',
      'orders',
      'constructor',
    ]);
  });
});

describe('problems', () => {
  test('are found in required fields that are empty, and in half a value', () => {
    expect([...checkDraft(description, fresh, ['start_at'])]).toEqual([
      ['name', 'Enter a name.'],
      ['destination__config__bucket_name', 'Enter a value.'],
      ['start_at', 'Complete the value, or clear the field.'],
    ]);
    expect(checkDraft(description, withValues({}), []).size).toBe(0);
  });

  test('of half a value are sent as something that the API refuses', () => {
    const body = bodyOf(description, withValues({}), null, times);
    expect(withIncomplete(body, [])).toEqual(body);
    expect(
      withIncomplete(body, ['start_at', 'destination__config__max_file_size_mb']),
    ).toMatchObject({
      start_at: 'incomplete',
      destination: { config: { bucket_name: 'acme', max_file_size_mb: 'incomplete' } },
    });
  });

  test('are said in the words of the labels', () => {
    const labels = labelsOf(description, 'S3');
    const say = (text: string) => inFormWords(text, labels);
    expect(say('Required with aws_access_key_id.')).toBe('Required with “AWS access key ID”.');
    expect(say('end_at must be after start_at.')).toBe('“End” must be after “Start”.');
    expect(say('Set some_other_name to name.')).toBe('Set some_other_name to name.');
    expect(say('This field is required.')).toBe('Enter a value.');
  });
});

test('a setting of one mode is neither shown nor sent for another', () => {
  const properties: PropertySchema['properties'] = {
    mode: { enum: ['append', 'snapshot', 'changes'], 'x-default': 'append' },
    keep_snapshots: { ...days, 'x-default': null } as PropertySchema,
    new_base: { type: 'integer', minimum: 0, 'x-default': 0 },
  };
  const settings = fieldsOf({ properties }).map((field) => ({ ...field, isLocal: false }));
  const shown = (mode: string) => {
    const draft = { ...fresh, settings: { mode, keep_snapshots: '2', new_base: '3' } };
    const { keep_snapshots, new_base } = bodyOf({ ...description, settings }, draft, null, times);
    const names = settings.filter((field) => hasSetting(draft, field)).map(({ name }) => name);
    return [names, keep_snapshots, new_base];
  };
  expect(shown('append')).toEqual([['mode'], null, undefined]);
  expect(shown('snapshot')).toEqual([['mode', 'keep_snapshots'], 2, undefined]);
  expect(shown('changes')).toEqual([['mode', 'new_base'], null, 3]);
});
