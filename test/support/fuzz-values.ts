import fc from 'fast-check';
import type { ApiDocument, JsonSchema } from './openapi.ts';

/** Texts that have broken services before. */
const hostile = [
  '',
  ' ',
  '\0',
  '\ud800',
  '\u202e',
  '💥',
  "' or 1=1 --",
  '%00',
  '../../etc/passwd',
  '__proto__',
  'constructor',
  '-1',
  '0',
  '1e999',
  '9223372036854775808',
  'NaN',
  'null',
  '@current',
  '{year}',
  '2024-02-30T00:00:00Z',
  '0001-01-01T00:00:00Z',
  '9999-12-31T23:59:59.999999Z',
  '-99999d',
  'a'.repeat(5_000),
];

const times = [
  '2024-03-01',
  '2024-03-01T00:00:00Z',
  '2024-03-01T12:30:00.123456+05:30',
  '2023-12-31T23:59:59',
  '2199-01-01T00:00:00Z',
  '-7d',
];

const anyText = fc.oneof(fc.constantFrom(...hostile), fc.string({ unit: 'binary', maxLength: 30 }));

/** A text for a path or query parameter of that schema: valid, nearly, or hostile. */
export function textFor(schema: JsonSchema): fc.Arbitrary<string> {
  return fc.oneof(
    { weight: 4, arbitrary: valueFor(schema, null, 0).map(toText) },
    { weight: 1, arbitrary: anyText },
  );
}

/** A generated object may have a `toString` of its own. */
const toText = (value: unknown): string =>
  typeof value === 'object' ? JSON.stringify(value) : String(value);

/** A body for that schema: mostly of its shape, with wrong parts mixed in. */
export function bodyFor(schema: JsonSchema, document: ApiDocument): fc.Arbitrary<unknown> {
  return fc.oneof(
    { weight: 12, arbitrary: valueFor(schema, document, 0) },
    { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
    { weight: 1, arbitrary: fc.constant(undefined) },
  );
}

function valueFor(
  schema: JsonSchema,
  document: ApiDocument | null,
  depth: number,
): fc.Arbitrary<unknown> {
  const wrong = fc.oneof(anyText, fc.jsonValue({ maxDepth: 2 }), fc.constantFrom(null, [], {}));
  const right = rightValueFor(schema, document, depth);
  return fc.oneof({ weight: 14, arbitrary: right }, { weight: 1, arbitrary: wrong });
}

function rightValueFor(
  schema: JsonSchema,
  document: ApiDocument | null,
  depth: number,
): fc.Arbitrary<unknown> {
  const { $ref } = schema as { $ref?: string };
  if ($ref !== undefined && document !== null) {
    return rightValueFor(resolve($ref, document), document, depth);
  }
  const branches = schema.oneOf ?? schema.anyOf;
  if (branches)
    return fc.oneof(...branches.map((branch) => rightValueFor(branch, document, depth)));
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum) return fc.constantFrom(...schema.enum);
  const types = [schema.type ?? 'string'].flat();
  const arbitraries = types.map((type) => ofType(type, schema, document, depth));
  return fc.oneof(...arbitraries);
}

function ofType(
  type: string,
  schema: JsonSchema,
  document: ApiDocument | null,
  depth: number,
): fc.Arbitrary<unknown> {
  switch (type) {
    case 'null':
      return fc.constant(null);
    case 'boolean':
      return fc.boolean();
    case 'integer':
      return fc.oneof(
        fc.integer({ min: schema.minimum ?? -10, max: Math.min(schema.maximum ?? 50, 50) }),
        fc.constantFrom(0, -1, 2 ** 31, -(2 ** 31) - 1, 2 ** 53),
      );
    case 'number':
      return fc.double({ noNaN: true });
    case 'array':
      return fc.array(valueFor(schema.items ?? {}, document, depth + 1), { maxLength: 3 });
    case 'object':
      return objectFor(schema, document, depth);
    default:
      return textOf(schema);
  }
}

function textOf({ format, maxLength }: JsonSchema): fc.Arbitrary<string> {
  if (format === 'date-time' || format === 'time-or-span') return fc.constantFrom(...times);
  if (format === 'uuid') return fc.uuid();
  return fc.oneof(
    fc.string({ minLength: 1, maxLength: Math.min(maxLength ?? 20, 20) }),
    fc.constantFrom('select event from events', 'us-east-1', 'my-bucket', 'UTC', '{"a":"b"}'),
  );
}

function objectFor(
  { properties = {}, required = [] }: JsonSchema,
  document: ApiDocument | null,
  depth: number,
): fc.Arbitrary<unknown> {
  if (depth > 5) return fc.constant({});
  const entries = Object.entries(properties).map(([name, property]) => [
    name,
    valueFor(property, document, depth + 1),
  ]);
  const fields: Record<string, fc.Arbitrary<unknown>> = Object.fromEntries(entries);
  const requiredKeys = required.filter((name) => name in fields);
  const whole = fc.record(fields, { requiredKeys });
  const extra = fc.dictionary(
    fc.constantFrom('x', 'id', 'constructor', 'toString'),
    fc.jsonValue(),
    { maxKeys: 1 },
  );
  return fc.tuple(whole, extra).map(([object, more]) => ({ ...more, ...object }));
}

function resolve(reference: string, document: ApiDocument): JsonSchema {
  let found: unknown = document.raw;
  for (const part of reference.replace('#/', '').split('/')) {
    found = (found as Record<string, unknown>)[part.replaceAll('~1', '/').replaceAll('~0', '~')];
  }
  return found as JsonSchema;
}
