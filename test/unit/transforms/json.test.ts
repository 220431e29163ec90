import { describe, expect, test } from 'vitest';
import {
  JsonObject,
  kindOf,
  listOf,
  mapScalars,
  objectOf,
  parseJson,
  plainOf,
  stringOf,
  toJson,
  trustJson,
} from '../../../src/rows/transforms/json.ts';
import { remember } from '../../../src/rows/transforms/remember.ts';

describe('JSON without loss', () => {
  test('gives the very text back if nothing changed, blanks and doubled names included', () => {
    const text = trustJson(' { "a" : 1,\n"a":2 , "\\u0062": [ ] }\t');
    const object = new JsonObject(text);
    expect([...object.members.keys()]).toEqual(['a', 'b']);
    expect(object.text).toBe(text);
    expect(mapScalars(object, (value) => value)).toBe(object);
  });

  test('takes the last of members with one name, as JSON.parse does', () => {
    expect(new JsonObject(trustJson('{"a":1,"a":2}')).get('a')).toBe('2');
  });

  test('keeps the order of names that look like numbers', () => {
    const object = new JsonObject(trustJson('{"b": 1, "10": 2, "9": 3}'));
    expect(object.with([['a', toJson(4)]]).text).toBe('{"b": 1, "10": 2, "9": 3, "a": 4}');
  });

  test('holds members named like those of every object', () => {
    const text =
      '{"__proto__": {"polluted": 1}, "constructor": 2, "toString": 3, "hasOwnProperty": 4}';
    const object = new JsonObject(trustJson(text));
    expect(object.get('valueOf')).toBeUndefined();
    expect(object.with([['a', toJson(null)]]).text).toBe(`${text.slice(0, -1)}, "a": null}`);
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false);
  });

  test('reads strings with escapes, and brackets and quotes inside them', () => {
    const strange = 'a"b\\c}]{[,: \u0000é😀\ud800';
    const text = JSON.stringify({ [strange]: strange, b: [strange, { c: `${strange}\\` }] });
    const object = new JsonObject(trustJson(text));
    expect(stringOf(object.get(strange))).toBe(strange);
    const [first, second] = listOf(object.get('b')) ?? [];
    expect(stringOf(first)).toBe(strange);
    expect(stringOf(objectOf(second)?.get('c'))).toBe(`${strange}\\`);
    expect(JSON.parse(object.with([]).text)).toEqual(JSON.parse(text));
  });

  test('knows the kinds of values', () => {
    const kinds = ['null', 'true', 'false', '-1', '"a"', '{}', '[]'].map((text) =>
      kindOf(trustJson(text)),
    );
    expect(kinds).toEqual(['null', 'boolean', 'boolean', 'number', 'string', 'object', 'list']);
    expect(kindOf(new JsonObject(new Map()))).toBe('object');
    expect(kindOf([])).toBe('list');
  });

  test('gives a string as its text and other values as JSON', () => {
    expect(plainOf(toJson('a"b'))).toBe('a"b');
    expect(plainOf(trustJson('1.10'))).toBe('1.10');
    expect(plainOf(new JsonObject(new Map([['a', toJson(true)]])))).toBe('{"a": true}');
  });

  test.each([
    '{"a" 1}',
    '{"a":1',
    '{"a":1 "b":2}',
    '{a:1}',
    '{"a":}',
    '{"a',
    '{"a":"b}',
    '{"a":[1}',
    '{',
  ])('refuses %s, which is no JSON', (text) => {
    expect(() => new JsonObject(trustJson(text)).members).toThrow(SyntaxError);
    expect(() => parseJson(text)).toThrow(SyntaxError);
  });

  test('reads what is nested 50,000 levels deep, and a text of a million quotes', () => {
    const deep = `${'{"a":['.repeat(25_000)}${']}'.repeat(25_000)}`;
    const object = new JsonObject(trustJson(`{"deep":${deep},"b":1}`));
    expect(object.get('b')).toBe('1');
    expect(object.get('deep')).toBe(deep);
    const quotes = '"'.repeat(1_000_000);
    const text = JSON.stringify({ quotes, slashes: '\\'.repeat(1_000_001) });
    expect(stringOf(new JsonObject(trustJson(text)).get('quotes'))).toBe(quotes);
  });
});

function counted() {
  const asked: string[] = [];
  const write = remember((text) => {
    asked.push(text);
    return text.toUpperCase();
  });
  return { asked, write };
}

test('a text that repeats is computed once', () => {
  const { asked, write } = counted();
  expect([write('a'), write('b'), write('a')]).toEqual(['A', 'B', 'A']);
  expect(asked).toEqual(['a', 'b']);
});

test('long texts are not remembered', () => {
  const { asked, write } = counted();
  const long = 'x'.repeat(100_000);
  for (let n = 0; n < 3; n += 1) expect(write(long)).toBe(long.toUpperCase());
  expect(asked).toHaveLength(3);
});

test('what is remembered has a bound in characters', () => {
  const { asked, write } = counted();
  const texts = Array.from({ length: 1_000 }, (_, n) => `${n} ${'x'.repeat(900)}`);
  for (const text of texts) write(text);
  // 256 Ki characters: the first ones are forgotten.
  write(texts[0] ?? '');
  expect(asked).toHaveLength(1_001);
});
