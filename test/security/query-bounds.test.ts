import { describe, expect, test } from 'vitest';
import { eventsModel } from '../../src/foundation/domain/events-model.ts';
import type { Model } from '../../src/foundation/domain/model.ts';
import { binaryOperators, likeOperators } from '../../src/rows/query/allow-list.ts';
import { operatorGrowth } from '../../src/rows/query/functions.ts';
import { parseQuery } from '../../src/rows/query/parse-query.ts';
import { describeSql } from '../../src/rows/query/select.ts';

const model: Model = {
  ...eventsModel,
  columns: [
    ...eventsModel.columns,
    { name: 'price', expression: null, sourceType: 'numeric', json: false },
    { name: 'tags', expression: null, sourceType: 'text[]', json: false },
  ],
};

const inSelect = (expression: string) => `SELECT ${expression} AS x FROM events`;

function constructsOf(text: string): readonly string[] {
  const result = parseQuery(text, model);
  return 'problems' in result ? result.problems.map(({ construct }) => construct) : [];
}

/** The guards of a query: what each is around, and how many bytes it lets through. */
function guardsOf(text: string): readonly (readonly [string, number])[] {
  const result = parseQuery(text, model);
  if ('problems' in result) throw new Error(JSON.stringify(result.problems));
  const sql = describeSql(model, result.ok);
  const found = sql.matchAll(/'value too large: (.*?) may have at most (\d+) bytes/g);
  return [...found].map(([, name = '', bytes]) => [name.replaceAll("''", "'"), Number(bytes)]);
}

const nest = (count: number, around: (inner: string) => string, inner = 'event') =>
  Array.from({ length: count }).reduce<string>((text) => around(text), inner);

test('what a query may call has a rule of growth: every operator', () => {
  const operators = [...binaryOperators, ...likeOperators.values()];
  const comparisons = ['IS DISTINCT FROM', 'IS NOT DISTINCT FROM'];
  expect([...operatorGrowth.keys()].toSorted()).toEqual([...operators, ...comparisons].toSorted());
});

describe('a query is refused', () => {
  const eight = `array_to_string(string_to_array(event, NULL), '12345678')`;
  test.each([
    // The attack: a search of megabytes for megabytes, made of any row at all.
    [
      `strpos(${nest(3, (inner) => `array_to_string(string_to_array(${inner}, NULL), 'aaaaaaaa')`, `rpad('a', 1000, 'a')`)}, 'b')`,
      'large function string_to_array',
    ],
    [`strpos(event, ${eight})`, 'function strpos'],
    [`position(event || 'a' in distinct_id)`, 'function position'],
    [`split_part(event, '${'a'.repeat(1_025)}', 1)`, 'function split_part'],
    [`replace(event, concat(event, 'a'), 'b')`, 'function replace'],
    [`string_to_array(event, event || event)`, 'function string_to_array'],
    [`translate(event, repeat_me, 'a')`.replace('repeat_me', `upper(event)`), 'function translate'],
    [`event LIKE '${'a%'.repeat(600)}'`, 'operator LIKE'],
    [`to_char(timestamp, concat(event, event))`, 'function to_char'],
    [`array_to_string(tags, event)`, 'large function array_to_string'],
    [nest(11, (inner) => `replace(${inner}, 'a', 'bb')`), 'large function replace'],
    [nest(6, (inner) => `ARRAY[${inner}]::text`), null],
    [nest(10, (inner) => `ARRAY[${inner}]::text`), 'large value'],
    [nest(6, (inner) => `concat(${inner}, ${inner}, ${inner})`), null],
    [nest(3, (inner) => `replace(${inner}, 'a', '${'b'.repeat(100)}')`), 'large function replace'],
    [`concat_ws(rpad('a', 1000), ${`'a', `.repeat(48)}'a')`, null],
    [
      nest(3, (inner) => `concat_ws(${inner}, ${`'a', `.repeat(48)}'a')`, `rpad('a', 1000)`),
      'large function concat_ws',
    ],
    [nest(11, (inner) => `overlay(${inner} placing 'x' from 9 for -9)`), 'large function overlay'],
    [nest(11, (inner) => `(tags || ${inner})::text`), 'large operator ||'],
    [
      nest(11, (inner) => `(CASE WHEN event = 'a' THEN tags ELSE '{}' END || ${inner})::text`),
      'large operator ||',
    ],
    [nest(11, (inner) => `(properties.a || ${inner})`), null],
    [`'${'9'.repeat(1_001)}'::numeric`, 'number'],
    [`'1e131071'::numeric`, 'number'],
    [`'1e13_1071'::numeric`, 'number'],
    [`div(price, '1e5000')`, 'number'],
    [`price * '${'9'.repeat(1_001)}'`, 'number'],
    [`lower('1e131071')::numeric % lower('7e65000')::numeric`, null],
    [`(event::numeric * event::numeric)::text::numeric * price`, 'costly operator *'],
    [`properties || '{"a":[${'1e131071,'.repeat(9)}1]}'`, 'large value'],
    [
      `'{1e131071,1e131071,1e131071,1e131071,1e131071,1e131071,1e131071}'::numeric[]`,
      'large cast to numeric[]',
    ],
    [`ARRAY[event]::numeric[]`, 'large cast to numeric[]'],
    [`round(price, 16383) * round(price, 16383)`, 'costly operator *'],
  ] as const)('%s', (expression, construct) => {
    const found = constructsOf(inSelect(expression));
    expect(found).toEqual(construct === null ? [] : [construct]);
    expect(constructsOf(`SELECT event FROM events WHERE (${expression}) IS NULL`)).toEqual(found);
  });

  test('if its columns together are large', () => {
    const columns = Array.from({ length: 300 }, (_, n) => `rpad('a', 1000) AS c${n}`);
    expect(constructsOf(`SELECT ${columns.join(', ')} FROM events`)).toEqual(['large row']);
  });

  test('with the position of the call', () => {
    const result = parseQuery(inSelect(`lower(event) || strpos(event, upper('a'))`), model);
    expect(result).toMatchObject({
      problems: [{ construct: 'function strpos', position: 24, detail: expect.any(String) }],
    });
  });
});

describe('a guard holds a column to what the expression can take', () => {
  test.each([
    [`event`, []],
    [`lower(event) || properties.a`, []],
    [`properties.a::numeric(10, 2) * price`, []],
    [`event = ANY (ARRAY['a', 'b'])`, []],
    [`left(event, 100) || upper(left(event, 100))`, []],
    [`strpos(event, 'abcde')`, [['event', 20_000_000]]],
    [
      `strpos(elements_chain, event)`,
      [
        ['elements_chain', 97_656],
        ['event', 1_024],
      ],
    ],
    [
      `event LIKE properties.pattern`,
      [
        ['event', 97_656],
        ['properties.pattern', 1_024],
      ],
    ],
    [`replace(event, 'a', '1234567890')`, [['event', 104_857]]],
    [
      `price * price`,
      [
        ['price', 10_000],
        ['price', 10_000],
      ],
    ],
    [`properties @> '{"a":1}'`, [['properties', 14_285_714]]],
    [
      `properties.a::numeric * properties.b::numeric`,
      [
        ['CAST(properties.a AS numeric)', 10_000],
        ['CAST(properties.b AS numeric)', 10_000],
      ],
    ],
  ] as const)('%s', (expression, guards) => {
    const found = guardsOf(inSelect(expression));
    expect(found.map(([name]) => name)).toEqual(guards.map(([name]) => name));
    for (const [index, [, bytes]] of found.entries()) {
      expect(bytes).toBeLessThanOrEqual(guards[index]?.[1] ?? 0);
      expect(bytes).toBeGreaterThan((guards[index]?.[1] ?? 0) * 0.9);
    }
  });

  test('of a row that repeats it hundreds of times', () => {
    const columns = Array.from({ length: 200 }, (_, n) => `event AS e${n}`);
    const guards = guardsOf(`SELECT ${columns.join(', ')} FROM events`);
    expect(guards).toHaveLength(200);
    expect(guards[0]).toEqual(['event', Math.floor((64 * 2 ** 20) / 200)]);
  });

  test('the more so, the more searches a row needs', () => {
    const searches = Array.from({ length: 100 }, (_, n) => `strpos(event, distinct_id) AS s${n}`);
    const guards = guardsOf(`SELECT ${searches.join(', ')} FROM events`);
    expect(new Set(guards.map((guard) => guard.join()))).toEqual(
      new Set(['event,9765', 'distinct_id,1024']),
    );
  });

  test('only in what a server is sent, not in the canonical text', () => {
    const result = parseQuery(inSelect(`strpos(event, 'abc')`), model);
    expect('ok' in result && result.ok.limits.size).toBe(1);
  });
});

describe('the text of a query', () => {
  test.each([
    ['+', '+'.repeat(9_980)],
    ['-+', '+-'.repeat(4_990)],
    ['comments that never end', '/*'.repeat(4_990)],
  ])('is refused before it is parsed if it is a run of %s', (_, run) => {
    const result = parseQuery(`SELECT 1${run}`, model);
    expect(result).toMatchObject({ problems: [{ construct: 'long operator', position: 9 }] });
  });

  test('has at most a hundred problems', () => {
    const columns = Array.from({ length: 2_400 }, (_, n) => `a${n}`).slice(0, 1_500);
    const result = parseQuery(`SELECT ${columns.join(',')} FROM events`, model);
    expect('problems' in result && result.problems).toHaveLength(100);
  });
});
