import { describe, expect, test } from 'vitest';
import { eventsModel } from '../../../src/foundation/domain/events-model.ts';
import type { Model } from '../../../src/foundation/domain/model.ts';
import { parseQuery } from '../../../src/rows/query/parse-query.ts';
import { copySql, countSql, describeSql, outputsOf } from '../../../src/rows/query/select.ts';
import {
  checkModelExpression,
  checkWall,
  type Selection,
} from '../../../src/rows/query/selection.ts';

const small: Model = {
  ...eventsModel,
  name: 'orders',
  relation: { schema: 'shop', name: 'Order "lines"' },
  tenantColumn: 'account',
  intervalColumn: 'changed_at',
  keyColumns: ['id', 'line'],
  eventColumn: null,
  columns: [
    { name: 'id', expression: null, sourceType: 'bigint', json: false },
    { name: 'cents', expression: 'round(amount * 100)', sourceType: 'numeric', json: false },
    { name: 'extra', expression: 'data::jsonb', sourceType: 'jsonb', json: true },
  ],
};

function select(text: string | null, more: Partial<Selection> = {}): Selection {
  const model = more.model ?? eventsModel;
  const result = text === null ? null : parseQuery(text, model);
  if (result && 'problems' in result) throw new Error(JSON.stringify(result.problems));
  return {
    model,
    query: result?.ok ?? null,
    tenantKey: '42',
    range: { start: '2024-03-01T00:00:00.000001Z', end: '2024-03-01T01:00:00.000000Z' },
    includeEvents: null,
    excludeEvents: null,
    ...more,
  };
}

const filter =
  `(source."team_id" = '42')` +
  ` AND (source."inserted_at" >= CAST('2024-03-01T00:00:00.000001Z' AS pg_catalog.timestamptz))` +
  ` AND (source."inserted_at" < CAST('2024-03-01T01:00:00.000000Z' AS pg_catalog.timestamptz))`;

const asText = (selection: Selection) =>
  outputsOf(selection.model, selection.query).map(({ name }) => ({ name, type: 'text' as const }));

describe('the statement that sends rows', () => {
  test('is one plain SELECT if there is no condition', () => {
    const selection = select('SELECT event, properties.a AS a FROM events');
    expect(copySql(selection, asText(selection))).toBe(
      `COPY (SELECT source."event" AS "event", (source."properties" OPERATOR(pg_catalog.->>) 'a') AS "a"` +
        ` FROM "public"."events" AS source WHERE ${filter}` +
        ` ORDER BY source."inserted_at", source."uuid") TO STDOUT (FORMAT binary)`,
    );
  });

  test('without a query sends every column of the model', () => {
    const selection = select(null);
    const sql = copySql(selection, asText(selection));
    for (const { name } of eventsModel.columns)
      expect(sql).toContain(`source."${name}" AS "${name}"`);
    expect(sql).toContain(`WHERE ${filter} ORDER BY`);
  });

  test('puts a condition outside of a fence that holds the filters', () => {
    const selection = select(`SELECT event FROM events WHERE event = 'a' OR TRUE`);
    const sql = copySql(selection, asText(selection));
    expect(sql).toContain(
      ` FROM "public"."events" AS source WHERE ${filter}` +
        ` ORDER BY source."inserted_at", source."uuid" OFFSET 0) AS source`,
    );
    expect(sql).toContain(
      ` AS source WHERE (source."event" = 'a') OR TRUE` +
        ` ORDER BY source."sluice order 1", source."sluice order 2") TO STDOUT`,
    );
  });

  test('sends what has no binary form of its own as JSON text', () => {
    const selection = select('SELECT event, 1.5 AS n FROM events');
    const sql = copySql(selection, [
      { name: 'event', type: 'text' },
      { name: 'n', type: 'as_json' },
    ]);
    expect(sql).toContain('SELECT source."event" AS "event",');
    expect(sql).toContain('CAST(pg_catalog.to_json(1.5) AS pg_catalog.text) AS "n"');
  });

  test('keeps rows without an event when events are excluded, and takes names as they are', () => {
    const selection = select(null, { includeEvents: ["it's", '$x'], excludeEvents: ['a\\b'] });
    expect(countSql(selection)).toBe(
      `SELECT pg_catalog.count(*) AS "count" FROM "public"."events" AS source WHERE ${filter}` +
        ` AND (source."event" IN ('it''s', '$x')) AND ((source."event" IN (E'a\\\\b')) IS NOT TRUE)`,
    );
  });

  test('empty lists of events filter nothing', () => {
    const selection = select(null, { includeEvents: [], excludeEvents: [] });
    expect(countSql(selection)).toBe(countSql(select(null)));
  });

  test('counts under the same condition', () => {
    const sql = countSql(select(`SELECT event FROM events WHERE properties.a = 'x'`));
    expect(sql).toContain(
      `${filter} OFFSET 0) AS source WHERE (source."properties" OPERATOR(pg_catalog.->>) 'a') = 'x'`,
    );
  });

  test('stops to count at a limit, inside of all filters', () => {
    const sql = countSql(select(`SELECT event FROM events WHERE properties.a = 'x'`), 20_000);
    expect(sql).toContain('SELECT pg_catalog.count(*) AS "count" FROM (SELECT 1 AS "row" FROM (');
    expect(sql).toContain(
      `${filter} OFFSET 0) AS source WHERE (source."properties" OPERATOR(pg_catalog.->>) 'a') = 'x' LIMIT 20000)`,
    );
    expect(() => countSql(select(null), 0.5)).toThrow('whole number');
  });

  test('refuses columns that are not those of the query', () => {
    const selection = select('SELECT event FROM events');
    expect(() => copySql(selection, [{ name: 'uuid', type: 'uuid' }])).toThrow();
    expect(() => copySql(selection, [])).toThrow();
  });

  test.each(['2024-03-01', "2024-03-01T00:00:00.000000Z' OR TRUE --", '2024-03-01T00:00:00Z'])(
    'refuses %s as a bound',
    (start) => {
      const end = '2024-03-01T01:00:00.000000Z';
      expect(() => countSql(select(null, { range: { start, end } }))).toThrow();
    },
  );

  test('refuses event names that no literal can hold', () => {
    expect(() => countSql(select(null, { includeEvents: ['a\0b'] }))).toThrow('query.invalid');
    expect(() => countSql(select(null, { excludeEvents: ['\ud800'] }))).toThrow('query.invalid');
  });
});

describe('a model of another table', () => {
  test('has its own relation, tenant, interval and keys', () => {
    const selection = select('SELECT id FROM orders', { model: small });
    const sql = copySql(selection, asText(selection));
    expect(sql).toContain(
      `FROM "shop"."Order ""lines""" AS source WHERE (source."account" = '42')`,
    );
    expect(sql).toContain('ORDER BY source."changed_at", source."id", source."line")');
  });

  test('reads expressions of the operator in parentheses, and paths into them', () => {
    const flat = describeSql(
      small,
      select('SELECT cents, extra.a FROM orders', { model: small }).query,
    );
    expect(flat).toContain('SELECT (round(amount * 100)) AS "cents"');
    expect(flat).toContain(`((data::jsonb) OPERATOR(pg_catalog.->>) 'a') AS "a"`);
    const fenced = select('SELECT cents FROM orders WHERE cents > 5', { model: small });
    const sql = copySql(fenced, asText(fenced));
    expect(sql).toContain('SELECT source."cents" AS "cents" FROM (SELECT');
    expect(sql).toContain('(round(amount * 100)) AS "cents"');
    expect(sql).toContain('WHERE source."cents" > 5');
  });

  test('without events takes no event filter', () => {
    expect(() => countSql(select(null, { model: small, includeEvents: ['a'] }))).toThrow(
      'query.invalid',
    );
  });

  test.each([
    ['round(amount * 100)', true],
    ["data #>> '{a,b}' /* fine */", true],
    ['amount -- the rest is gone', false],
    ['a), (b', false],
    ['a) FROM (b', false],
    ['(SELECT 1)', false],
    ['a) UNION SELECT (b', false],
    ['a); DROP TABLE x; SELECT (b', false],
    ['', false],
  ])('an expression %s is fit: %s', (expression, fit) => {
    expect(checkModelExpression(expression) === null).toBe(fit);
  });
});

describe('a model without an interval column', () => {
  const model = { ...small, intervalColumn: null };

  test('gives all rows of the tenant by key, and still only those', () => {
    const selection = select(null, { model });
    const sent = copySql(selection, asText(selection));
    expect(sent).toContain(`WHERE (source."account" = '42') ORDER BY source."id", source."line"`);
    expect(sent).not.toContain('2024');
    expect(countSql(selection)).toMatch(/WHERE \(source."account" = '42'\)$/);
    expect(() => checkWall(countSql(selection), model, '43')).toThrow('not limited to its tenant');
  });

  test('keeps the order of the keys outside of the fence of a condition', () => {
    const selection = select('SELECT id FROM orders WHERE cents > 3', { model });
    expect(copySql(selection, asText(selection))).toMatch(
      /ORDER BY source."id", source."line" OFFSET 0\) AS source WHERE .* ORDER BY source."sluice order 2", source."sluice order 3"/,
    );
  });
});

describe('the second wall', () => {
  const good = `SELECT 1 FROM "public"."events" AS source WHERE (source."team_id" = '42') AND TRUE`;

  test('lets a statement pass that keeps to its tenant', () => {
    expect(checkWall(good, eventsModel, '42')).toBe(good);
  });

  test.each([
    ['another tenant', good.replace('42', '43')],
    ['OR', good.replace(' AND TRUE', ' AND TRUE OR TRUE')],
    ['NOT', good.replace('WHERE', 'WHERE NOT (').concat(')')],
    ['no condition', 'SELECT 1 FROM public.events AS source'],
    ['another relation', good.replace('"events"', '"users"')],
    ['another schema', good.replace('"public"', '"other"')],
    ['a second relation', good.replace('WHERE', ', "public"."events" AS e WHERE')],
    ['a subquery', good.replace('SELECT 1', 'SELECT (SELECT 1)')],
    ['a function in FROM', good.replace('WHERE', ', generate_series(1, 9) WHERE')],
    ['a union', `${good} UNION ${good}`],
    ['a second statement', `${good}; SELECT 1`],
    ['another operator', good.replace("= '42'", "<> '42'")],
    ['the wrong column', good.replace('team_id', 'event')],
  ])('stops %s', (_, sql) => {
    expect(() => checkWall(sql, eventsModel, '42')).toThrow('is not limited to its tenant');
  });
});
