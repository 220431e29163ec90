import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type JsonText, mapScalars, textOf, trustJson } from '../../src/rows/transforms/json.ts';
import { RowError } from '../../src/rows/transforms/effort.ts';
import type { Step } from '../../src/rows/transforms/step.ts';
import type { Row } from '../../src/rows/transforms/transform.ts';
import { canonical, chainFor, makeRow, stepOf, stepOfPlugin } from '../support/transforms/rows.ts';

/** JSON text with numbers as a database may hold them, blanks, escapes, and names that trip programs up. */
const name = fc.oneof(
  fc.constantFrom('a', 'b', 'a.b', '$ip', 'email', '__proto__', 'constructor', '10', ''),
  fc.string({ unit: 'binary' }),
);
const numberText = fc
  .tuple(
    fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n }),
    fc.constantFrom('', '.0', '.10', 'e400', 'E-7'),
  )
  .map(([whole, rest]) => `${whole}${rest}`);
const blanks = fc.constantFrom('', '', ' ', '\n\t ');
const { jsonText } = fc.letrec<{ jsonText: string; object: string }>((tie) => ({
  jsonText: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom('null', 'true', 'false', '{}', '[]', '-0'),
    numberText,
    name.map((text) => JSON.stringify(text)),
    fc
      .tuple(fc.array(tie('jsonText')), blanks)
      .map(([list, gap]) => `[${gap}${list.join(`${gap},`)}${gap}]`),
    tie('object'),
  ),
  object: fc
    .tuple(fc.uniqueArray(fc.tuple(name, tie('jsonText')), { selector: ([key]) => key }), blanks)
    .map(([members, gap]) => {
      const parts = members.map(
        ([key, value]) => `${gap}${JSON.stringify(key)}${gap}:${gap}${value}`,
      );
      return `{${parts.join(`${gap},`)}${gap}}`;
    }),
}));
const objectText = fc
  .uniqueArray(fc.tuple(name, jsonText), { selector: ([key]) => key, maxLength: 8 })
  .map(
    (members) =>
      `{${members.map(([key, value]) => `${JSON.stringify(key)}: ${value}`).join(', ')}}`,
  );

const row: fc.Arbitrary<Row> = fc
  .tuple(fc.uuid(), name, fc.oneof(objectText, jsonText), objectText)
  .map(([uuid, event, properties, person]) =>
    makeRow([
      ['uuid', trustJson(JSON.stringify(uuid))],
      ['team_id', trustJson('7')],
      ['event', trustJson(JSON.stringify(event))],
      ['distinct_id', trustJson(JSON.stringify(event))],
      ['properties', trustJson(properties)],
      ['person_properties', trustJson(person)],
      ['inserted_at', trustJson('"2024-01-01T00:00:00Z"')],
    ]),
  );

const configs: readonly (readonly [number, Readonly<Record<string, string>>])[] = [
  [1, { properties: 'a, a.b' }],
  [1, { properties: 'distinct_id', column: '*', on_error: 'reject' }],
  [2, { events: 'a, email' }],
  [3, { properties: 'email, a', salt: 's' }],
  [4, { names: '{"a": "b", "b": "a", "email": "__proto__"}' }],
  [5, {}],
  [
    6,
    { condition: '{"any": [{"property": "a", "is": null}, {"column": "event", "contains": "e"}]}' },
  ],
  [8, { values: '{"a": 9007199254740993}' }],
  [9, { types: '{"a": "number", "b": "boolean"}' }],
  [11, {}],
  [17, {}],
  [18, { max_length: '3' }],
  [19, { percent: '70' }],
  [1, { properties: 'uuid', column: '*' }],
];
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.constantFrom(...configs).map(([id, config]) => stepOfPlugin(id, config, id)),
  fc.constantFrom('keep', 'reject').map((onError) =>
    stepOf(
      (given) => {
        if (String(given.get('event')).length % 2 === 0) return given;
        throw new RowError('It cannot be done.');
      },
      { onError: onError === 'keep' ? 'keep' : 'reject' },
    ),
  ),
);
const steps = fc.array(step, { maxLength: 5 });

type Result = ReturnType<ReturnType<typeof chainFor>['apply']>;
const describeResult = (result: Result) =>
  result.kind === 'kept' ? textOf(result.row) : JSON.stringify(result);

describe('a chain', () => {
  test('of two chains is one chain after the other', () => {
    fc.assert(
      fc.property(row, steps, steps, (given, first, second) => {
        const whole = chainFor(given, [...first, ...second]).apply(given);
        const half = chainFor(given, first).apply(given);
        const parts = half.kind === 'kept' ? chainFor(given, second).apply(half.row) : half;
        expect(describeResult(whole)).toBe(describeResult(parts));
      }),
    );
  });

  test('makes the same of a row, whatever rows came before it', () => {
    fc.assert(
      fc.property(fc.array(row, { minLength: 1 }), steps, (rows, given) => {
        const [last] = rows.slice(-1);
        if (!last) return;
        const chain = chainFor(last, given);
        const results = rows.map((each) => describeResult(chain.apply(each)));
        expect(results.at(-1)).toBe(describeResult(chainFor(last, given).apply(last)));
      }),
    );
  });

  test('changes neither the row that it was given nor its protected columns', () => {
    fc.assert(
      fc.property(row, steps, (given, chainSteps) => {
        const before = [...given.members].map(([column, value]) => [column, textOf(value)]);
        const result = chainFor(given, chainSteps).apply(given);
        expect([...given.members].map(([column, value]) => [column, textOf(value)])).toEqual(
          before,
        );
        if (result.kind !== 'kept') return;
        for (const column of ['uuid', 'team_id', 'inserted_at']) {
          expect(result.row.get(column)).toBe(given.get(column));
        }
        expect([...result.row.members.keys()].sort()).toEqual([...given.members.keys()].sort());
      }),
    );
  });

  test('counts every row in every step once', () => {
    fc.assert(
      fc.property(fc.array(row, { minLength: 1 }), steps, (rows, chainSteps) => {
        const [first] = rows;
        if (!first) return;
        const chain = chainFor(first, chainSteps);
        const results = rows.map((each) => chain.apply(each));
        const of = (kind: Result['kind']) =>
          results.filter((result) => result.kind === kind).length;
        let reaching = rows.length;
        for (const {
          step: { onError },
          counters,
          errors,
        } of chain.steps) {
          expect(counters.in).toBe(reaching);
          const left = counters.dropped + (onError === 'reject' ? counters.errored : 0);
          expect(counters.out).toBe(counters.in - left);
          expect(errors.reduce((sum, { rows: count }) => sum + count, 0)).toBe(counters.errored);
          reaching = counters.out;
        }
        expect(of('kept')).toBe(reaching);
        expect(of('dropped')).toBe(
          chain.steps.reduce((sum, { counters }) => sum + counters.dropped, 0),
        );
        expect(of('kept') + of('dropped') + of('rejected')).toBe(rows.length);
      }),
    );
  });
});

describe('what a step does not change', () => {
  test('is written as it came, to the character', () => {
    fc.assert(
      fc.property(objectText, jsonText, (properties, kept) => {
        const given = makeRow([['properties', trustJson(`{"kept": ${kept}, "x": ${properties}}`)]]);
        const result = chainFor(given, [stepOfPlugin(1, { properties: 'x' })]).apply(given);
        expect(describeResult(result)).toBe(`{"properties": {"kept": ${kept}}}`);
      }),
    );
  });

  test('means the same after every level was read and written again', () => {
    fc.assert(
      fc.property(jsonText, (text) => {
        const mark = (value: JsonText) => `${value}9` as JsonText;
        const unmark = (value: JsonText) => value.slice(0, -1) as JsonText;
        const json = trustJson(text);
        const numbersOnly = (change: typeof mark) => (value: JsonText) =>
          /^-?\d/.test(value) ? change(value) : value;
        const rewritten = mapScalars(mapScalars(json, numbersOnly(mark)), numbersOnly(unmark));
        expect(canonical(rewritten)).toBe(canonical(json));
        expect(JSON.parse(textOf(rewritten))).toEqual(JSON.parse(text));
      }),
    );
  });
});

function byName(entries: readonly [string, unknown][]): [string, unknown][] {
  return [...entries].sort(([a], [b]) => (a < b ? -1 : 1));
}

const entriesOf = (text: string) => byName(Object.entries(JSON.parse(text)));

test('against JavaScript’s own objects drop, keep, rename and set do what they do there', () => {
  fc.assert(
    fc.property(objectText, (text) => {
      const given = makeRow([['properties', trustJson(text)]]);
      const apply = (id: number, config: Readonly<Record<string, string>>) => {
        const result = chainFor(given, [stepOfPlugin(id, config)]).apply(given);
        const value = result.kind === 'kept' ? result.row.get('properties') : undefined;
        return entriesOf(textOf(value ?? trustJson('{}')));
      };
      const entries = entriesOf(text);
      const others = entries.filter(([key]) => key !== 'email' && key !== 'e-mail');
      const email = entries.filter(([key]) => key === 'email');
      const renamed = email.map(([, value]): [string, unknown] => ['e-mail', value]);
      const poisoned = entries.filter(([key]) => key !== '__proto__');
      expect(apply(1, { properties: 'email, e-mail' })).toEqual(others);
      expect(apply(7, { properties: 'email' })).toEqual(email);
      expect(apply(4, { names: '{"email": "e-mail"}' })).toEqual(byName([...others, ...renamed]));
      expect(apply(8, { values: '{"__proto__": [1]}' })).toEqual(
        byName([...poisoned, ['__proto__', [1]]]),
      );
    }),
  );
});
