import { describe, expect, test } from 'vitest';
import { withDefaults } from '../../../src/foundation/domain/plugin.ts';
import type { Problem } from '../../../src/foundation/domain/problem.ts';
import { InvalidSettings } from '../../../src/rows/transforms/transform.ts';
import { stepOfPlugin, transformOf } from '../../support/transforms/rows.ts';

function compile(name: string, config: Readonly<Record<string, string>>) {
  const transform = transformOf(name);
  return transform.compile(withDefaults(transform.configSchema, config));
}

function problemsOf(action: () => unknown): readonly Problem[] {
  try {
    action();
  } catch (error) {
    if (error instanceof InvalidSettings) return error.problems;
    throw error;
  }
  return [];
}

const problemOf = (action: () => unknown) => problemsOf(action)[0];

const deepGroup = `${'{"not":'.repeat(11)}{"column":"event","is":1}${'}'.repeat(11)}`;

describe('a setting that its plugin cannot use is refused by name, with what to write', () => {
  test.each([
    ['Drop properties', { properties: ' , ' }, 'properties', 'at least one name'],
    ['Drop properties', { properties: '["a", 1]' }, 'properties', 'JSON list of strings'],
    ['Drop properties', { properties: 'a.'.repeat(30) }, 'properties', 'at most 20 parts'],
    ['Filter events', { events: ',' }, 'events', 'at least one name'],
    ['Hash properties', { properties: 'a' }, 'salt', 'secret text'],
    ['Rename properties', { names: '["a"]' }, 'names', 'JSON object'],
    ['Rename properties', { names: '{"a": 1}' }, 'names', 'must be a string'],
    ['Cast properties', { types: '{"a": "date"}' }, 'types', 'one of string, number'],
    ['Mask properties', { properties: 'a', keep_first: '-1' }, 'keep_first', 'from 0 to 100'],
    ['Mask properties', { properties: 'a', keep_last: '1.5' }, 'keep_last', 'whole number'],
    ['Truncate values', { max_length: '0' }, 'max_length', 'from 1 to 1000000'],
    ['Truncate values', { column: '*' }, 'properties', 'at least one name'],
    ['Sample rows', { percent: '101' }, 'percent', 'from 0 to 100'],
    ['Filter rows', { condition: '{}' }, 'condition', 'names a column'],
    ['Filter rows', { condition: '{"all": []}' }, 'condition', '{"all": […]}'],
    ['Filter rows', { condition: '{"any": {"column": "a"}}' }, 'condition', '{"any": […]}'],
    ['Filter rows', { condition: '{"all": [1]}' }, 'condition', 'must be an object'],
    ['Filter rows', { condition: '{"column": 1, "is": 1}' }, 'condition', 'must be strings'],
    ['Filter rows', { condition: '{"column": "a", "like": 1}' }, 'condition', 'one operator'],
    [
      'Filter rows',
      { condition: '{"column": "a", "gt": 1, "lt": 2}' },
      'condition',
      'one operator',
    ],
    ['Filter rows', { condition: '{"column": "a", "gt": true}' }, 'condition', 'string, number'],
    ['Filter rows', { condition: '{"column": "a", "in": 1}' }, 'condition', 'a list'],
    ['Filter rows', { condition: deepGroup }, 'condition', 'at most 10 levels'],
  ])('%s %j', (name, config, key, detail) => {
    expect(problemOf(() => compile(name, config))).toMatchObject({
      attr: key,
      code: 'invalid_input',
      detail: expect.stringContaining(detail),
    });
  });

  test.each(['2', 'x', '-0.1'])('max_error_share %s', (share) => {
    const config = { properties: 'a', max_error_share: share };
    expect(problemOf(() => stepOfPlugin('Drop properties', config))).toMatchObject({
      attr: 'max_error_share',
      detail: 'Write a number from 0 to 1.',
    });
  });
});

test.each([
  [
    'Mask properties',
    { properties: '', keep_first: 'a', keep_last: '-1', max_error_share: '2', color: 'red' },
    ['color', 'keep_first', 'keep_last', 'max_error_share', 'properties'],
  ],
  ['Hash properties', { properties: '[' }, ['properties', 'salt']],
  [
    'Strip URLs',
    { properties: ',', keep_parameters: '[1]', on_error: 'x', max_error_share: 'x' },
    ['keep_parameters', 'max_error_share', 'on_error', 'properties'],
  ],
  ['Truncate values', { max_length: 'x', properties: '["' }, ['max_length', 'properties']],
  ['Parse URLs', { properties: ',', parameters: '["' }, ['parameters', 'properties']],
])('all settings that their plugin cannot use are named at once: %s %j', (name, config, keys) => {
  const given = config as Readonly<Record<string, string>>;
  expect(problemsOf(() => stepOfPlugin(name, given)).map(({ attr }) => attr)).toEqual(
    expect.arrayContaining(keys),
  );
});

describe('a step', () => {
  const step = (name: string, config: Readonly<Record<string, string>>) => {
    return stepOfPlugin(name, config, 7);
  };

  test('keeps rows with errors by default, however many', () => {
    const made = step('Drop properties', { properties: 'a' });
    expect(made).toMatchObject({
      id: 7,
      name: 'Drop properties',
      onError: 'keep',
      maxErrorShare: 1,
    });
  });

  test('rejects them if its config says so, or if it protects', () => {
    expect(step('Drop properties', { properties: 'a', on_error: 'reject' }).onError).toBe('reject');
    expect(step('Hash properties', { properties: 'a', salt: 's' }).onError).toBe('reject');
    const keep = { properties: 'a', salt: 's', on_error: 'keep' };
    expect(problemOf(() => step('Hash properties', keep))).toMatchObject({ attr: 'on_error' });
  });

  test('takes the default for what a form left empty', () => {
    const config = { properties: 'a', column: '', on_error: '', max_error_share: '' };
    expect(step('Drop properties', config)).toMatchObject({ onError: 'keep', maxErrorShare: 1 });
  });

  test.each([
    ['Filter events', { events: 'a', mode: 'dropp' }, 'mode'],
    ['Filter events', { events: 'a', modes: 'drop' }, 'modes'],
    ['Hash properties', { properties: 'a' }, 'salt'],
    ['Hash properties', { properties: 'a', salt: '' }, 'salt'],
  ])('is not made of a stored config that does not fit its plugin: %s %j', (name, config, key) => {
    expect(problemOf(() => step(name, config as Record<string, string>))).toMatchObject({
      attr: key,
    });
  });
});
