import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { eventsModel } from '../../../src/foundation/domain/events-model.ts';
import { binaryOperators, castTypes, forms } from '../../../src/rows/query/allow-list.ts';
import { BoundedMap } from '../../../src/rows/query/bounded-map.ts';
import { functions } from '../../../src/rows/query/functions.ts';
import { parseQuery } from '../../../src/rows/query/parse-query.ts';
import { inSelect, refusedQueries } from '../../security/refused-queries.ts';

describe.each(refusedQueries)('refuses among %s', (_, cases) => {
  test.each(cases)('%s', (marked, construct) => {
    const position = Array.from(marked.slice(0, marked.indexOf('¦'))).length + 1;
    const result = parseQuery(marked.replace('¦', ''), eventsModel);
    const problems = 'problems' in result ? result.problems : [];
    expect(problems).toContainEqual(
      expect.objectContaining({ construct, position, detail: expect.stringMatching(/\.$/) }),
    );
  });
});

describe('refuses what would cost too much', () => {
  const nested = (open: string, count: number, close: string) =>
    inSelect(`${open.repeat(count)}event${close.repeat(count)}`);
  test.each([
    ['ten thousand characters', inSelect(`'${'a'.repeat(10_000)}'`), 'long query'],
    ['deep NOT', inSelect(`${'NOT '.repeat(200)}true`), 'nesting'],
    ['very deep NOT', inSelect(`${'NOT '.repeat(2400)}true`), 'long expression'],
    ['deep calls', nested('lower(', 200, ')'), 'nesting'],
    ['very deep calls', nested('lower(', 1000, ')'), 'long expression'],
    ['deep casts', nested('', 1, '::text'.repeat(200)), 'nesting'],
    ['a long chain', inSelect(`1${' + 1'.repeat(200)}`), 'nesting'],
    [
      'casts of what is deep',
      inSelect(`(${'NOT '.repeat(500)}true)${'::text'.repeat(200)}`),
      'long expression',
    ],
    ['deep parentheses that never close', `SELECT ${'('.repeat(4000)}`, 'long expression'],
    [
      'too many nodes',
      `SELECT ${Array.from({ length: 1100 }, (_, n) => `+1 a${n}`).join(',')} FROM events`,
      'long query',
    ],
  ])('%s', (_, query, construct) => {
    const result = parseQuery(query, eventsModel);
    expect('problems' in result && result.problems[0].construct).toBe(construct);
  });

  test('and still reads the next query', () => {
    for (let round = 0; round < 50; round += 1) {
      parseQuery(inSelect(`${'NOT '.repeat(2400)}true`), eventsModel);
    }
    expect(parseQuery('SELECT event FROM events', eventsModel)).toHaveProperty('ok');
  });
});

test('names every problem at once, first to last', () => {
  const result = parseQuery(
    'SELECT now() AS a, event, ctid FROM events WHERE pg_sleep(1) IS NULL',
    eventsModel,
  );
  const problems = 'problems' in result ? result.problems : [];
  expect(problems.map(({ construct, position }) => [construct, position])).toEqual([
    ['function now', 8],
    ['system column ctid', 27],
    ['function pg_sleep', 50],
  ]);
});

test.each([
  ['SELECT event FROM events LIMIT 5', 'LIMIT (position 26) is not supported.'],
  [
    'SELECT count(*) AS n FROM events',
    'count() (position 8) is not supported: export queries cannot aggregate.',
  ],
  ['SELECT pg_sleep(1) AS n FROM events', 'pg_sleep() (position 8) is not supported.'],
  ['SELECT event FROM users', 'relation "users" (position 19): This export can read only events.'],
])('says in one sentence what is wrong with %s', (query, detail) => {
  const result = parseQuery(query, eventsModel);
  expect('problems' in result && result.problems.map((problem) => problem.detail)).toEqual([
    detail,
  ]);
});

test.each([
  ['orders', 'SELECT orderTotal FROM orders', '"orderId", "orderTotal", id.'],
  ['user', 'SELECT id FROM user', 'Write the model as "user".'],
  ['order', 'SELECT id FROM order', 'Write the model as "order".'],
  ['constructor', 'SELECT id FROM "Constructor"', 'This export can read only constructor.'],
])('says how names of the model %s are written', (name, query, detail) => {
  const columns = ['orderId', 'orderTotal', 'id'].map((column) => {
    return { name: column, expression: null, sourceType: 'text', json: false };
  });
  const result = parseQuery(query, { ...eventsModel, name, columns });
  expect('problems' in result && result.problems[0].detail).toMatch(
    new RegExp(`${detail.replace('.', '\\.')}$`),
  );
});

test.each([
  ['Forms', forms],
  ['Operators', binaryOperators],
  ['Types to cast to', castTypes.keys()],
  ['Functions', functions.keys()],
])('the README lists the allowed: %s', async (title, allowed) => {
  const readme = await readFile(
    new URL('../../../src/rows/query/README.md', import.meta.url),
    'utf8',
  );
  const line = readme.split('\n').find((text) => text.startsWith(`- ${title}`));
  const listed = [...(line ?? '').matchAll(/`([^`]+)`/g)].map(([, name]) => name);
  expect(listed).toEqual([...allowed]);
});

test('what was not read for the longest time leaves first, as soon as the weights are too much', () => {
  const map = new BoundedMap<string, number>(10);
  map.set('a', 1, 4);
  map.set('b', 2, 4);
  expect(map.get('a')).toBe(1);
  map.set('c', 3, 4);
  expect([map.get('a'), map.get('b'), map.get('c')]).toEqual([1, undefined, 3]);
});

test('an entry that is set again has its new weight alone', () => {
  const map = new BoundedMap<string, number>(10);
  map.set('a', 1, 8);
  map.set('a', 2, 2);
  map.set('b', 3, 8);
  expect([map.get('a'), map.get('b')]).toEqual([2, 3]);
});

test('an entry heavier than the map is not kept, and the old one under its key is gone', () => {
  const map = new BoundedMap<string, number>(10);
  map.set('a', 1, 1);
  map.set('b', 1, 1);
  map.set('a', 2, 11);
  expect(map.get('a')).toBeUndefined();
  expect(map.get('b')).toBe(1);
});
