import { afterEach, describe, expect, test } from 'vitest';
import { transforms } from '../../../src/rows/transforms/index.ts';
import { textOf, trustJson } from '../../../src/rows/transforms/json.ts';
import type { Row } from '../../../src/rows/transforms/transform.ts';
import { firstByDay } from '../../support/nightly.ts';
import {
  canonical,
  chainFor,
  makeRow,
  rowOf,
  rowOfText,
  stepOfPlugin,
  transformOf,
} from '../../support/transforms/rows.ts';

/** For each plugin settings with which it reaches for `a`, `a.b` and the members of every object. */
const names = 'a, a.b, __proto__, constructor.prototype, toString';
const configs: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'Filter events': { events: 'x' },
  'Filter rows': {
    condition: '{"any": [{"property": "a.b", "gt": 1}, {"property": "__proto__", "is": 1}]}',
    mode: 'drop',
  },
  'Hash properties': { properties: names, salt: 's' },
  'Rename properties': { names: '{"a": "__proto__", "__proto__": "constructor"}' },
  'Set properties': { values: '{"__proto__": {"polluted": true}, "constructor": 1}' },
  'Cast properties': { types: '{"a": "number", "a.b": "json", "__proto__": "boolean"}' },
  'Flatten properties': {},
  'Change case': {},
  'Truncate values': { max_length: '10' },
  'Sample rows': { percent: '50' },
};

function hostileRow(properties: string): Row {
  const row = rowOf({ uuid: 'u1', event: 'e', distinct_id: 'd', properties: null });
  const columns = [...row.members].map(([name, value]) => [name, textOf(value)] as const);
  return makeRow([...columns, ['properties', trustJson(properties)]]);
}

const long = JSON.stringify('https://a@b/?'.repeat(20_000));
const rows: readonly (readonly [string, string])[] = [
  ['no properties', 'null'],
  ['properties that are a list', '[{"a": 1}]'],
  ['properties that are a text', '"a"'],
  ['an empty object', '{}'],
  [
    'names of every object',
    '{"__proto__": {"a": 1}, "constructor": {"prototype": {"x": 1}}, "toString": 1}',
  ],
  ['__proto__ inside __proto__', '{"a": {"__proto__": {"__proto__": {"polluted": true}}}}'],
  [
    'long texts',
    `{"a": ${long}, "$ip": ${long}, "$current_url": ${long}, "$raw_user_agent": ${long}}`,
  ],
  [
    'slashes without end',
    `{"$current_url": "${'/'.repeat(200_000)}", "a": "${'0'.repeat(200_000)}x"}`,
  ],
  ['20,000 properties', `{${Array.from({ length: 20_000 }, (_, n) => `"p${n}": ${n}`).join()}}`],
  ['objects 5,000 levels deep', `{"a": ${'{"b":'.repeat(5_000)}1${'}'.repeat(5_000)}}`],
  ['lists 30,000 levels deep', `{"a": ${'['.repeat(30_000)}${']'.repeat(30_000)}}`],
  ['numbers that no reader holds', `{"a": {"b": 1e999999999}, "c": ${'9'.repeat(100_000)}}`],
  ['half a character', '{"a": "\\ud800", "\\udc00": "\\u0000", "$ip": "\\ud83d"}'],
  ['text that is no JSON', '{"a": 1, "b"'],
];

afterEach(() => {
  expect(Object.keys(Object.prototype)).toEqual([]);
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
});

describe.each(transforms)('$name', (transform) => {
  test.each(rows)('gets through %s, and leaves the row as it was', (_, properties) => {
    const row = hostileRow(properties);
    const given = row.get('properties');
    const config = configs[transform.name] ?? {
      properties: `${names}, $ip, $current_url, $raw_user_agent`,
    };
    const chain = chainFor(row, [stepOfPlugin(transform, config)]);
    const outcome = chain.apply(row);
    expect(row.get('properties')).toBe(given);
    expect(chain.steps[0]?.counters.in).toBe(1);
    if (outcome.kind === 'kept') expect(outcome.row.get('uuid')).toBe('"u1"');
    if (outcome.kind === 'rejected') expect(outcome.reason.length).toBeLessThan(200);
    // The next row is not affected.
    const good = rowOf({ uuid: 'u2', event: 'e', distinct_id: 'd', properties: { z: 1 } });
    const fresh = chainFor(good, [stepOfPlugin(transform, config)]).apply(good);
    expect(kindAndRow(chain.apply(good))).toEqual(kindAndRow(fresh));
  });
});

function kindAndRow(outcome: ReturnType<ReturnType<typeof chainFor>['apply']>) {
  return [outcome.kind, outcome.kind === 'kept' ? canonical(outcome.row) : null];
}

describe('a row with too much JSON for a step is an error of that row', () => {
  const tooMuch =
    /^The row has (?:more JSON than a step may read|too many values for the names of this step)\.$/;
  const members = (count: number) => Array.from({ length: count }, (_, n) => `"p${n}": 1`).join();
  const nested = (inner: string, levels: number) =>
    `${'{"a": '.repeat(levels)}${inner}${'}'.repeat(levels)}`;

  test.each(
    firstByDay(4, [
      ['members', `{${members(250_000)}}`],
      ['elements', `{"a": [${'1,'.repeat(250_000)}1]}`],
      ['text that is passed over again and again', nested(`[${'1,'.repeat(250_000)}1]`, 60)],
      ['a URL of millions of parts', `{"a": "${'x/'.repeat(1_500_000)}"}`],
      ['members within a member', `{"a": {"b": {${members(250_000)}}}}`],
      ['objects', `{"a": [${'{"b": {"c": 1}},'.repeat(100_000)}1]}`],
    ]),
  )('%s', (_, properties) => {
    for (const [name, config] of [
      ['Strip URLs', { properties: 'a' }],
      ['Change case', {}],
      ['Flatten properties', {}],
      ['Mask properties', { properties: 'a.b, a' }],
    ] as const) {
      const row = hostileRow(properties);
      const chain = chainFor(row, [stepOfPlugin(name, config)]);
      const outcome = chain.apply(row);
      const reasons = chain.steps[0]?.errors.map(({ reason }) => reason) ?? [];
      // A step that does not look inside makes nothing.
      if (reasons.length === 0) continue;
      expect(reasons).toEqual([expect.stringMatching(tooMuch)]);
      expect(outcome.kind).toBe(transformOf(name).protects ? 'rejected' : 'kept');
      return;
    }
    throw new Error('no step has read the row');
  });

  test('one long text is none', () => {
    const row = hostileRow(`{"a": "${'x'.repeat(30_000_000)}"}`);
    const chain = chainFor(row, [stepOfPlugin('Mask properties', { properties: 'a' })]);
    expect(chain.apply(row).kind).toBe('kept');
    expect(chain.steps[0]?.errors).toEqual([]);
  });
});

describe('personal data does not get past a step that protects', () => {
  const deep = `${'['.repeat(20_000)}"secret"${']'.repeat(20_000)}`;

  test.each([
    '{"a": "secret"}',
    '{"a": "\\u0073ecret"}',
    '{"a": "other", "a": "secret"}',
    '{"a": "secret", "a": "other"}',
    '{"\\u0061": "secret"}',
    '{"a": ["secret", ["secret"]]}',
    '{"a": {"secret": 1}}',
    '{"a": {"b": "secret", "c": "secret"}}',
    '{"x": {"a": "secret"}, "x.a": "secret"}',
    '{"x": [{"a": "secret"}, [{"a": "secret"}]]}',
    `{"a": ${deep}}`,
    '[{"a": "secret"}, [{"a": "secret"}]]',
  ])('%#: hash and mask', (properties) => {
    const row = rowOfText(`{"uuid": "u1", "properties": ${properties}}`);
    for (const [name, config] of [
      ['Hash properties', { properties: 'a, a.b, x.a', salt: 's' }],
      ['Mask properties', { properties: 'a, a.b, x.a' }],
    ] as const) {
      const outcome = chainFor(row, [stepOfPlugin(name, config)]).apply(row);
      const left = outcome.kind === 'kept' ? outcome.row.text : JSON.stringify(outcome);
      expect(left).not.toMatch(/secret|\\u0073ecret/);
      expect(left).toContain('u1');
    }
  });

  test.each([
    'https://secret@a.b',
    'https://x:secret@a.b/c',
    '//secret@a.b',
    'https:\\\\secret@a.b',
    'https:/secret@a.b',
    'https:secret@a.b',
    'secret@a.b',
    'mailto:secret@a.b',
    'view-source:https://secret@a.b/',
    'ht\ttps://sec\nret@a.b',
    'https://a@secret@a.b',
    '/p?secret',
    '?secret',
    '#secret',
    'https://a.b#x?secret',
    'https://a.b?x#secret',
    'https://a.b/?%6b=secret',
    'https://a.b/?kept=1?&x=secret',
  ])('%s: strip', (url) => {
    const row = rowOf({ uuid: 'u1', properties: { url: [url], n: { deep: url } } });
    const step = stepOfPlugin('Strip URLs', { properties: 'url, n', keep_parameters: 'kept' });
    const outcome = chainFor(row, [step]).apply(row);
    expect(outcome.kind).toBe('kept');
    expect(outcome.kind === 'kept' && outcome.row.text).not.toMatch(/secret|sec\\nret/);
  });

  test.each([
    '203.0.113.77',
    ' 203.0.113.77',
    '::ffff:203.0.113.77',
    '::ffff:cb00:714d',
    '203.0.113.077',
    '203.0.113.77:80',
    '203.0.113.77/32',
    '[203.0.113.77]',
    'x203.0.113.77',
  ])('%s: anonymise', (ip) => {
    const row = rowOf({ uuid: 'u1', properties: { $ip: ip } });
    const outcome = chainFor(row, [stepOfPlugin('Anonymise IP addresses', {})]).apply(row);
    expect(outcome.kind === 'kept' && outcome.row.text).not.toMatch(/77|714d/);
  });

  test('a column of another name rejects every row', () => {
    const row = rowOf({ uuid: 'u1', properties: { a: 'secret' } });
    const step = stepOfPlugin('Mask properties', { properties: 'a', column: 'property' });
    expect(chainFor(row, [step]).apply(row)).toEqual({
      kind: 'rejected',
      step: 1,
      reason: 'The row has no column property.',
      key: { uuid: '"u1"' },
    });
  });
});
