import fc from 'fast-check';
import { parseSync } from 'libpg-query';
import { describe, expect, test } from 'vitest';
import { eventsModel } from '../../src/foundation/domain/events-model.ts';
import { binaryOperators, castTypes, likeOperators } from '../../src/rows/query/allow-list.ts';
import type { Expression } from '../../src/rows/query/expression.ts';
import { functions } from '../../src/rows/query/functions.ts';
import { normalizedText, type ParsedQuery, parseQuery } from '../../src/rows/query/parse-query.ts';
import { copySql } from '../../src/rows/query/select.ts';
import { conjunction } from '../../src/rows/query/translate.ts';

const text = fc.oneof(
  fc.constantFrom("'", "''", '\\', "\\'; DROP TABLE events; --", '$$', '$a$', '/*', '😀', '\u0001'),
  fc.string({ maxLength: 12, unit: 'binary' }).map((value) => value.replaceAll('\0', '')),
);
const key = fc.oneof(
  fc.constantFrom('a', '$browser', 'select', 'Mixed', 'a"b', "it's", 'constructor', '*', 'a.b'),
  fc.string({ minLength: 1, maxLength: 12 }),
);
const whole = fc.integer({ min: -1000, max: 1000 });

const leaf: fc.Arbitrary<Expression> = fc.oneof(
  fc.constantFrom(...eventsModel.columns).map(({ name }) => ({ kind: 'column', name }) as const),
  fc
    .array(key, { minLength: 1, maxLength: 3 })
    .map((path) => ({ kind: 'json', column: 'properties', path }) as const),
  text.map((value) => ({ kind: 'string', value }) as const),
  fc
    .oneof(whole.map(String), fc.constantFrom('1.5', '1e9', '-1.50', '12345678901234567890'))
    .map((value) => ({ kind: 'number', text: value }) as const),
  fc
    .constantFrom('TRUE' as const, 'FALSE' as const, 'NULL' as const)
    .map((keyword) => ({ kind: 'keyword', keyword }) as const),
);

const castType = fc
  .tuple(fc.constantFrom(...castTypes), fc.boolean(), fc.boolean())
  .map(([[name, { modifiers }], modified, array]) => ({
    name,
    modifiers: modified ? modifiers.map(() => 3) : [],
    array,
  }));

const calls = [...functions].filter(([, { refuse }]) => refuse === null);
const operators = [...binaryOperators, ...likeOperators.values(), 'IS DISTINCT FROM'];
const tests = ['IS NULL', 'IS NOT NULL', 'IS TRUE', 'IS NOT FALSE', 'IS UNKNOWN'];

const { expression } = fc.letrec<{ expression: Expression }>((tie) => {
  const part = tie('expression');
  const parts = fc.array(part, { minLength: 1, maxLength: 3 });
  const composite: fc.Arbitrary<Expression>[] = [
    part
      .filter(({ kind }) => kind !== 'number')
      .map((operand) => ({ kind: 'unary', operator: '-', operand })),
    fc
      .tuple(fc.constantFrom(...operators), part, part)
      .map(([operator, left, right]) => ({ kind: 'binary', operator, left, right })),
    fc
      .tuple(fc.constantFrom('ANY' as const, 'ALL' as const), part, part)
      .map(([quantifier, left, right]) => ({
        kind: 'quantified',
        operator: '<>',
        quantifier,
        left,
        right,
      })),
    fc
      .tuple(fc.constantFrom('AND' as const, 'OR' as const), part, part)
      .map(([operator, left, right]) => conjunction(operator, [left, right])),
    part.map((operand) => ({ kind: 'not', operand })),
    fc
      .tuple(fc.constantFrom(...tests), part)
      .map(([test, operand]) => ({ kind: 'test', test, operand })),
    fc
      .tuple(fc.boolean(), part, parts)
      .map(([negated, operand, items]) => ({ kind: 'in', negated, operand, items })),
    fc
      .tuple(fc.constantFrom('BETWEEN', 'NOT BETWEEN SYMMETRIC'), part, part, part)
      .map(([keyword, operand, low, high]) => ({ kind: 'between', keyword, operand, low, high })),
    fc.tuple(fc.option(part), parts, fc.option(part)).map(([operand, results, otherwise]) => ({
      kind: 'case',
      operand,
      branches: results.map((result) => ({ when: result, result })),
      otherwise,
    })),
    fc
      .tuple(fc.constantFrom('COALESCE', 'GREATEST', 'LEAST'), parts)
      .map(([name, args]) => ({ kind: 'form', name, arguments: args })),
    fc
      .tuple(part, part)
      .map(([left, right]) => ({ kind: 'form', name: 'NULLIF', arguments: [left, right] })),
    fc.tuple(fc.constantFrom(...calls), part).map(([[name, allowed], argument]) => ({
      kind: 'call',
      name,
      arguments: Array.from({ length: allowed.arguments[0] }, () => argument),
    })),
    parts.map((items) => ({ kind: 'array', items })),
    fc.tuple(part, parts).map(([operand, indexes]) => ({ kind: 'subscript', operand, indexes })),
    fc.tuple(part, castType).map(([operand, type]) => ({ kind: 'cast', operand, type })),
  ];
  return { expression: fc.oneof({ maxDepth: 4, withCrossShrink: true }, leaf, ...composite) };
});

const query: fc.Arbitrary<ParsedQuery> = fc
  .tuple(fc.array(expression, { minLength: 1, maxLength: 3 }), fc.option(expression), key)
  .map(([expressions, where, name]) => ({
    outputs: expressions.map((part, index) => ({ name: `${name}${index}`, expression: part })),
    where,
    star: false,
    limits: new Map(),
  }));

const teamId = 4_242;
const copyOf = (parsed: ParsedQuery) =>
  copySql(
    {
      model: eventsModel,
      query: parsed,
      tenantKey: String(teamId),
      range: { start: '2024-03-01T00:00:00.000000Z', end: '2024-03-01T01:00:00.000000Z' },
      includeEvents: null,
      excludeEvents: ["'); DROP TABLE events; --"],
    },
    parsed.outputs.map(({ name }) => ({ name, type: 'text' })),
  );

/** Every node of a tree with its tag, found without any of the code under test. */
function* walk(node: unknown): Generator<readonly [tag: string, fields: Record<string, unknown>]> {
  if (typeof node !== 'object' || node === null) return;
  for (const [name, value] of Object.entries(node)) {
    if (/^[A-Z]/.test(name)) yield [name, value];
    yield* walk(value);
  }
}

/** What the printed statement reads, by PostgreSQL's parser alone. */
function inspect(sql: string) {
  const match = /^COPY \((.*)\) TO STDOUT \(FORMAT binary\)$/s.exec(sql);
  // The statement as a whole first: whatever ends the parenthesis early shows here.
  const whole = [...walk(parseSync(sql))];
  const nodes = [...walk(parseSync(match?.[1] ?? ''))];
  const of = (tag: string) => nodes.filter(([name]) => name === tag).map(([, fields]) => fields);
  const from = of('SelectStmt').filter((select) =>
    JSON.stringify(select.fromClause).startsWith('[{"RangeVar"'),
  );
  return {
    statements: whole
      .filter(([tag]) => tag.endsWith('Stmt') && tag !== 'SelectStmt')
      .map(([tag]) => tag),
    relations: of('RangeVar').map(({ schemaname, relname }) => `${schemaname}.${relname}`),
    otherReads: nodes
      .map(([tag]) => tag)
      .filter((tag) => /^(SubLink|Join|RangeF|RangeTa|Json|Xml)/.test(tag)),
    functions: of('FuncCall').map(({ funcname }) => JSON.stringify(funcname)),
    condition: from.map(({ whereClause }) => whereClause),
  };
}

const tenantCondition = {
  A_Expr: {
    kind: 'AEXPR_OP',
    name: [{ String: { sval: '=' } }],
    lexpr: {
      ColumnRef: expect.objectContaining({
        fields: [{ String: { sval: 'source' } }, { String: { sval: 'team_id' } }],
      }),
    },
    rexpr: { A_Const: expect.objectContaining({ sval: { sval: `${teamId}` } }) },
    location: expect.any(Number),
  },
};

function expectWalled(sql: string): void {
  const seen = inspect(sql);
  expect(seen.statements).toEqual(['CopyStmt']);
  expect(seen.relations).toEqual(['public.events']);
  expect(seen.otherReads).toEqual([]);
  expect(seen.condition).toEqual([{ BoolExpr: expect.objectContaining({ boolop: 'AND_EXPR' }) }]);
  const [where] = seen.condition as [{ BoolExpr: { args: unknown[] } }];
  expect(where.BoolExpr.args).toContainEqual(tenantCondition);
  for (const name of seen.functions) {
    const found = /^\[\{"String":\{"sval":"pg_catalog"\}\},\{"String":\{"sval":"(\w+)"\}\}\]$/.exec(
      name,
    );
    expect(functions.has(found?.[1] ?? name)).toBe(true);
  }
}

describe('a query made of what is allowed', () => {
  test('is read back from its normalised text as the same query, or refused, never as another', () => {
    let read = 0;
    fc.assert(
      fc.property(query, (made) => {
        const result = parseQuery(normalizedText(made, eventsModel), eventsModel);
        if ('problems' in result) {
          // Random trees may break the rules that are about values: those only.
          const constructs = result.problems.map(({ construct }) => construct);
          for (const construct of constructs) {
            expect(construct).toMatch(
              /^(large .*|costly .*|function .*|operator .*|number|moving time|time zone .*|type .*|long name|nesting)$/,
            );
          }
          return;
        }
        read += 1;
        // Whether a text of a row becomes a time follows from the tree.
        const text = JSON.stringify(result.ok, (key, value) =>
          key === 'readsTime' ? undefined : value,
        );
        expect({ ...JSON.parse(text), limits: made.limits }).toEqual(made);
      }),
      { numRuns: 250 },
    );
    expect(read).toBeGreaterThan(120);
  });

  test('keeps to its tenant in the statement that is sent', () => {
    fc.assert(
      fc.property(query, (made) => {
        expectWalled(copyOf(made));
      }),
      { numRuns: 120 },
    );
  });
});

describe('a query that was tampered with', () => {
  const seeds = [
    'SELECT * FROM events',
    `SELECT event AS e, properties.a.b, lower(distinct_id) AS d FROM events WHERE event = 'a' OR uuid IS NULL`,
    `SELECT CASE WHEN event LIKE 'a%' THEN 1 ELSE 2 END AS c FROM events e WHERE e.properties."$x" IN ('1', '2')`,
    `SELECT (properties ->> 'n')::int + 1 AS n FROM events WHERE NOT (event = ANY (ARRAY['a']))`,
  ];
  const fragments = (
    "( ) , ; . * ' '' \" $$ $1 -- /* */ :: = OR AND NOT SELECT FROM WHERE UNION JOIN events pg_user " +
    'public.events pg_catalog. team_id ctid (SELECT 1) EXISTS count(*) pg_sleep(1) ::regclass ' +
    'OPERATOR(pg_catalog.=) LIMIT ORDER BY GROUP IN LATERAL WITH x AS ROW( COLLATE "C" TABLE INTO'
  ).split(' ');
  const edit = fc.record({
    at: fc.nat(),
    remove: fc.nat({ max: 3 }),
    insert: fc.array(fc.constantFrom(...fragments), { maxLength: 3 }),
  });

  test('is refused, or reads the same one relation for the same tenant', () => {
    let accepted = 0;
    fc.assert(
      fc.property(
        fc.constantFrom(...seeds),
        fc.array(edit, { minLength: 1, maxLength: 2 }),
        (seed, edits) => {
          const tokens = seed.split(/\b/);
          for (const { at, remove, insert } of edits) {
            tokens.splice(at % tokens.length, remove, ...insert.map((part) => ` ${part} `));
          }
          const result = parseQuery(tokens.join(''), eventsModel);
          if ('problems' in result) return;
          accepted += 1;
          expectWalled(copyOf(result.ok));
        },
      ),
      { numRuns: 1_000 },
    );
    expect(accepted).toBeGreaterThan(0);
  });
});
