import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { RowBlock } from '../../src/foundation/domain/row-block.ts';
import { jsonOfField } from '../../src/rows/encoders/index.ts';
import { BlockColumns, BlockRow } from '../../src/rows/transforms/block-row.ts';
import { BlockWriter } from '../../src/rows/transforms/transform-rows.ts';
import { Chain } from '../../src/rows/transforms/chain.ts';
import { chainColumnsOf } from '../../src/rows/transforms/column-values.ts';
import {
  type Edit,
  type Json,
  JsonObject,
  type JsonText,
  jsonNull,
  objectOf,
  textOf,
  trustJson,
} from '../../src/rows/transforms/json.ts';
import { JsonbObject } from '../../src/rows/transforms/jsonb-object.ts';
import { RowTransformer } from '../../src/rows/transforms/transform-rows.ts';
import { columnsOf, rowBlock } from '../support/row-blocks.ts';
import { stepOfPlugin } from '../support/transforms/rows.ts';

/** Names as they come, and those that trip programs up; values with their text as PostgreSQL prints it. */
const name = fc.oneof(
  fc.constantFrom('a', 'b', 'ab', 'a.b', '$ip', 'email', '__proto__', 'constructor', '10', '', 'ü'),
  fc.constantFrom('a"b', 'a\\b', 'a\nb', '"', '\u0001'),
  fc.string({ unit: 'grapheme' }),
);
const scalar = fc.oneof(
  fc.constantFrom('null', 'true', 'false', '{}', '[]', '0', '-1.10', '9007199254740993', '1e400'),
  fc.constantFrom('"a, \\"b\\": {"', '"}"', '"\\\\"', '"\\\\\\""', '{"a": "}", "b": ["]"]}'),
  name.map((text) => JSON.stringify(text)),
  fc
    .array(name, { maxLength: 3 })
    .map((names) => `[${names.map((each) => JSON.stringify(each)).join(', ')}]`),
);
type Members = readonly (readonly [string, string])[];
const members: fc.Arbitrary<Members> = fc.uniqueArray(fc.tuple(name, scalar), {
  selector: ([key]) => key,
  maxLength: 8,
});

const join = (given: Members) =>
  `{${given.map(([key, value]) => `${JSON.stringify(key)}: ${value}`).join(', ')}}`;

/** As PostgreSQL prints jsonb: shorter names first, then by their bytes. */
function jsonbOf(given: Members): string {
  const sorted = given.toSorted(([a], [b]) => {
    const [one, other] = [Buffer.from(a), Buffer.from(b)];
    return one.length - other.length || Buffer.compare(one, other);
  });
  return join(sorted);
}

const edits: fc.Arbitrary<readonly Edit[]> = fc.array(
  fc
    .tuple(name, fc.option(scalar, { nil: undefined }))
    .map(([key, value]): Edit => [key, value === undefined ? undefined : trustJson(value)]),
  { maxLength: 4 },
);

/** Bytes of others around it: nothing may be read beyond its own. */
function openAmid(text: string): JsonbObject | null {
  const bytes = Buffer.from(`"x", ${text}, "y": 1}`);
  return JsonbObject.open(bytes, 5, 5 + Buffer.byteLength(text));
}

function written(value: JsonObject): string {
  const empty: RowBlock = { columns: [], rowCount: 0, bytes: Buffer.alloc(0), ...noFields };
  const sink = new BlockWriter([], empty);
  value.writeTo(sink);
  return sink.finish().bytes.toString();
}
const noFields = { offsets: new Int32Array(), lengths: new Int32Array() };

describe('an object in bytes', () => {
  test('is, after any edits, what the same object of text is', () => {
    fc.assert(
      fc.property(members, fc.array(edits, { maxLength: 3 }), (given, changes) => {
        const text = jsonbOf(given);
        let inBytes: JsonObject | null = openAmid(text);
        if (inBytes === null) return;
        let ofText = new JsonObject(trustJson(text));
        for (const change of [[], ...changes]) {
          if (change.length > 0) {
            inBytes = inBytes.edit(change);
            ofText = ofText.edit(change);
          }
          expect(written(inBytes)).toBe(ofText.text);
          expect(inBytes.text).toBe(ofText.text);
          expect([...inBytes.members]).toEqual([...ofText.members]);
          for (const [key] of [...given, ...change, ['missing']] as const) {
            expect(inBytes.get(key)).toBe(ofText.get(key));
          }
        }
      }),
      { numRuns: 500 },
    );
  });

  test('is opened whenever no name has an escape', () => {
    fc.assert(
      fc.property(members, (given) => {
        const isPlain = given.every(([key]) => JSON.stringify(key).length === key.length + 2);
        expect(openAmid(jsonbOf(given)) !== null).toBe(isPlain);
      }),
    );
  });

  test('is none if its names are in another order, or come twice, or its blanks are others', () => {
    for (const text of [
      '{"b": 1, "a": 2}',
      '{"a": 1, "a": 2}',
      '{"ab": 1, "b": 2}',
      '{"a":1}',
      '{"a": 1,"b": 2}',
      '{ "a": 1}',
      '{"a": 1 }',
      '{"a": }',
      '{"a": 1, }',
      '{"a": [1}',
      '{"a": "x}',
      '{"a',
      '{',
      '[]',
      '1',
    ]) {
      expect(openAmid(text), text).toBeNull();
    }
  });
});

const columns = columnsOf({
  uuid: 'uuid',
  event: 'text',
  properties: 'jsonb',
  note: 'json',
  score: 'float8',
  flag: 'bool',
  seen: 'timestamptz',
  inserted_at: 'timestamptz',
});
const fixed = ['uuid', 'inserted_at'];
const toJson = ({ type }: (typeof columns)[number]) => jsonOfField(type);
const configs: readonly (readonly [number, Readonly<Record<string, string>>])[] = [
  [1, { properties: 'a, a.b' }],
  [1, { properties: 'event, score, note', column: '*' }],
  [1, { properties: 'uuid', column: '*' }],
  [2, { events: 'a, email' }],
  [3, { properties: 'email, a, $ip', salt: 'ä'.repeat(70) }],
  [3, { properties: 'event', column: '*', salt: 's' }],
  [4, { names: '{"a": "b", "b": "a", "email": "__proto__"}' }],
  [5, {}],
  [8, { values: '{"a": 9007199254740993, "z": {"y": 1}}' }],
  [8, { values: '{"score": "none", "flag": 1}', column: '*', on_error: 'reject' }],
  [8, { values: '{"seen": "infinity"}', column: '*', on_error: 'reject' }],
  [9, { types: '{"a": "number", "b": "boolean"}' }],
  [10, { properties: 'a, b' }],
  [11, {}],
  [17, {}],
  [18, { max_length: '3' }],
  [1, { properties: 'a', column: 'note' }],
];
const step = fc.constantFrom(...configs).map(([id, config]) => stepOfPlugin(id, config, id));
const time = fc.oneof(fc.constant('infinity'), fc.constant(1_700_000_000_000_000n));
const row = fc.tuple(
  fc.uuid(),
  fc.option(name),
  fc.option(fc.oneof(members.map(jsonbOf), members.map(join), scalar)),
  fc.option(
    fc.oneof(
      members.map((each) => join(each).replaceAll(', ', ',\n')),
      scalar,
    ),
  ),
  fc.option(fc.constantFrom(1.5, Number.NaN, -0)),
  fc.option(fc.boolean()),
  time,
  time,
);

test('20,000 members can be changed at once', () => {
  const many = Array.from({ length: 20_000 }, (_, n) => [String(n).padStart(5, '0'), '1'] as const);
  const object = openAmid(jsonbOf(many));
  const changed = object?.edit(many.map(([key]): Edit => [key, trustJson('2')]));
  expect(changed?.text).toBe(jsonbOf(many).replaceAll(': 1', ': 2'));
});

describe('rows of a block', () => {
  test('come out of a chain as rows of text do', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(row, { minLength: 1, maxLength: 5 }),
        fc.array(step, { maxLength: 4 }),
        async (rows, steps) => {
          const block = rowBlock(columns, rows);
          const outputs = columns.map(({ name: column }) => ({ name: column, column, path: [] }));
          const path = { name: 'picked', column: 'properties', path: ['a'] };
          const shape = { columns, keyColumns: ['uuid'], fixedColumns: fixed, toJson };
          const transformer = new RowTransformer(steps, { ...shape, outputs: [...outputs, path] });
          const made = await transformer.apply(block);

          const chain = new Chain(steps, chainColumnsOf(columns, fixed), ['uuid']);
          const read = new BlockColumns(columns, toJson);
          const ends = rows.map((_, index) => chain.apply(ofText(read, block, index)));
          const kept = ends.flatMap((end) => (end.kind === 'kept' ? [end.row] : []));
          const out = new BlockColumns(made.block.columns, toJson);
          const results = kept.map((_, index) => linesOf(ofText(out, made.block, index)));

          for (const index of rows.keys()) {
            const given = BlockRow.of(read, block, index);
            expect(given.text).toBe(new JsonObject(given.members).text);
            const taken = given.edit([['event', undefined]]);
            expect(taken.text).toBe(new JsonObject(taken.members).text);
            const properties = given.get('properties');
            const mixed = taken.edit([['properties', changedIn(properties)]]);
            for (const each of [BlockRow.of(read, block, index), given, taken, mixed]) {
              expect(written(each)).toBe(each.text);
            }
          }
          expect(made.block.rowCount).toBe(kept.length);
          expect(made.dropped).toBe(ends.filter(({ kind }) => kind === 'dropped').length);
          expect(made.rejected.map(({ reason }) => reason)).toEqual(
            ends.flatMap((end) => (end.kind === 'rejected' ? [end.reason] : [])),
          );
          expect(transformer.steps.map(({ counters }) => counters)).toEqual(
            chain.steps.map(({ counters }) => counters),
          );
          for (const [index, expected] of kept.entries()) {
            const { picked, ...fields } = results[index] ?? {};
            expect(fields).toEqual(linesOf(expected));
            expect(picked).toBeDefined();
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});

/** With one more member, if it is an object. */
function changedIn(value: Json | undefined): Json {
  return objectOf(value)?.edit([['a', trustJson('1')]]) ?? jsonNull;
}

/** The reference: every column as its text, no bytes. */
function ofText(read: BlockColumns, block: RowBlock, index: number): JsonObject {
  const given = BlockRow.of(read, block, index);
  const texts = [...given.members].map(([key, value]): [string, JsonText] => [key, textOf(value)]);
  return new JsonObject(
    new Map(texts.map(([key, text]) => [key, text[0] === '{' ? new JsonObject(text) : text])),
  );
}

function linesOf(given: JsonObject): Record<string, string> {
  return Object.fromEntries([...given.members].map(([key, value]) => [key, textOf(value)]));
}
