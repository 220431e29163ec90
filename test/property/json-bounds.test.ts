import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  refuseHostileJson,
  refuseHostileText,
} from '../../src/service/api/validation/hostile-json.ts';
import { Refusal } from '../../src/foundation/domain/problem.ts';

/** What a check says; null if it accepts. */
function verdictOf(check: () => void): unknown {
  try {
    check();
    return null;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return error.problems;
  }
}

const scanned = (text: string) => verdictOf(() => refuseHostileJson(Buffer.from(text)));
const walked = (text: string) => verdictOf(() => refuseHostileText(JSON.parse(text)));

/** A value, with at most one list or object that is too long, or too deep, somewhere in it. */
const body = fc
  .record({
    value: fc.jsonValue({ maxDepth: 4 }),
    place: fc.array(fc.oneof(fc.constant(null), fc.string({ minLength: 1 })), { maxLength: 36 }),
    items: fc.constantFrom(0, 1, 999, 1_000, 1_001, 1_500),
    fields: fc.boolean(),
  })
  .map(({ value, place, items, fields }) => {
    const list = Array.from({ length: items }, () => 1);
    const wide = fields ? Object.fromEntries(list.map((one, at) => [`f${at}`, one])) : list;
    const inner = place.reduceRight<unknown>(
      (made, name) => (name === null ? [value, made] : { [name]: made }),
      wide,
    );
    return { inner };
  });

it('are those of the parsed body, with the same field in the error', () => {
  fc.assert(
    fc.property(body, fc.boolean(), (value, spaced) => {
      const text = JSON.stringify(value, null, spaced ? 2 : 0);
      const hostile = /\\u|\\ud|__proto__/.test(text);
      const [early, late] = [scanned(text), walked(text)];
      // The parser refuses some names and characters before it looks at lengths.
      if (hostile) expect(early === null || late !== null).toBe(true);
      else expect(early).toEqual(late);
    }),
    { numRuns: 500 },
  );
});

it('end the scan at the first excess, and bound what is left to parse', () => {
  const lists = (count: number, items: number) =>
    `{"a":[${Array.from({ length: count }, () => `[${'1,'.repeat(items - 1)}1]`).join()}]}`;
  expect(scanned(lists(99, 999))).toBe(null);
  expect(scanned(lists(999, 999))).toMatchObject([
    { detail: 'The body has more than 100,000 values.' },
  ]);
});

it.each([
  ['{"a":1,"b":{"c":[{"d":1,"d":1}]}}', 'b__c__0__d'],
  ['{"a":1,"\\u0061":2}', 'a'],
  ['{"":1,"":2}', null],
  ['{"a":{"":1,"b":1,"b":1}}', 'a__b'],
])(
  'refuse a field that occurs twice, because the parser keeps the last one only: %s',
  (text, attr) => {
    expect(scanned(text)).toMatchObject([{ detail: 'This field occurs twice. Remove one.', attr }]);
  },
);

it('do not take the same name in two objects for a field that occurs twice', () => {
  expect(scanned('{"a":{"a":1},"b":[{"a":1},{"a":1}],"c":"a","d":{"c":"\\"a\\":"}}')).toBe(null);
});

it.each([
  ...['9007199254740993', '-9007199254740993', '12345678901234567890', '9223372036854775808'],
  ...['1e400', '-1e400', '1e-400', '0.12345678901234567890123'],
])('refuse %s, which the parser changes', (number) => {
  const detail = `The number ${number} has more digits than a JSON number keeps. Send it as text.`;
  expect(scanned(`{"a":[0,{"b":${number}}]}`)).toMatchObject([{ detail, attr: 'a__1__b' }]);
});

it.each([
  ...['0', '-0', '1.0', '1E5', '0.0', '0e9', '0.10000000000000001', '9007199254740991'],
  ...['12345678901234567000', '100000000000000000000', '5e-324', '1.7976931348623157e+308'],
])('take %s, which the parser keeps', (number) => {
  expect(scanned(`{"a":[${number}],"b":"9007199254740993"}`)).toBe(null);
});

it('leave what is no JSON to the parser', () => {
  for (const text of [
    '"',
    '"\\',
    ',',
    ']',
    ':',
    '{"a"',
    '["\\"',
    'x'.repeat(10),
    '1-2.3e4e5-6.7-8-9',
  ]) {
    expect(scanned(text)).toBe(null);
  }
});
