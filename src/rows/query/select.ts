import type { Model } from '../../foundation/domain/model.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import { BoundedMap } from './bounded-map.ts';
import { binary, columnNamed, type Expression } from './expression.ts';
import type { Output, ParsedQuery } from './parse-query.ts';
import {
  type Dialect,
  printExpression,
  quoteName,
  serverDialect,
  serverDialectWith,
  sourceName,
} from './print.ts';
import { checkWall, instant, literal, ofTenant, rowFilter, type Selection } from './selection.ts';
import { conjunction } from './translate.ts';
import { isWrittenSince } from './written-since.ts';

export interface SentColumn extends Pick<Column, 'name' | 'type'> {
  /** Default: as they are, and of type `as_json` as the text of their JSON. `text`: as the text that PostgreSQL prints. */
  readonly sentAs?: 'text';
}

export function relationOf({ relation }: Pick<Model, 'relation'>): string {
  return `${quoteName(relation.schema)}.${quoteName(relation.name)}`;
}

export function outputsOf(model: Model, query: ParsedQuery | null): readonly Output[] {
  return (
    query?.outputs ?? model.columns.map(({ name }) => ({ name, expression: columnNamed(name) }))
  );
}

/**
 * Even if it were run, it would find no row. Statements here need pg_catalog first in the path, and `TimeZone = UTC`.
 * @param keys key columns that follow the outputs; the tenant column follows them. Null: the outputs alone
 */
export function describeSql(
  model: Model,
  query: ParsedQuery | null,
  keys: readonly string[] | null = null,
): string {
  const shown = outputsOf(model, query).map(plainTarget);
  const hidden = (keys ?? []).map((name) => keyTarget(model, query, { name, type: 'text' }));
  // A query with a condition sees only the columns of its rows.
  const tenant = `(SELECT "t".${quoteName(model.tenantColumn)} FROM ${relationOf(model)} AS "t" LIMIT 0) AS "sluice tenant"`;
  const all = keys === null ? shown : [...shown, ...hidden, () => tenant];
  return printSelect(model, query, all, never, false);
}

/** As `count`. @param limit it stops at so many rows; null: it counts all */
export function countSql(selection: Selection, limit: number | null = null): string {
  const { model, query } = selection;
  const filter = rowFilter(selection);
  const count = 'pg_catalog.count(*) AS "count"';
  if (limit === null) {
    return checkStatement(printSelect(model, query, [() => count], filter, false), selection);
  }
  if (!Number.isSafeInteger(limit)) throw new Error('A limit is a whole number.');
  const rows = printSelect(model, query, [() => '1 AS "row"'], filter, false);
  return checkStatement(`SELECT ${count} FROM (${rows} LIMIT ${limit}) AS "rows"`, selection);
}

/**
 * COPY's binary format, sorted by interval column, then keys: in the same order on every attempt.
 * @param columns of the outputs, as the server described them; those of type `as_json` are sent as its text
 * @param keys key columns that follow the outputs, hidden from the readers of the rows
 */
export function copySql(
  selection: Selection,
  columns: readonly SentColumn[],
  keys: readonly SentColumn[] = [],
): string {
  return `COPY (${rowsSql(selection, columns, keys)}) TO STDOUT (FORMAT binary)`;
}

export function copyKeySetSql(selection: Selection, keys: readonly SentColumn[]): string {
  const { model, query } = selection;
  const targets = keys.map((key) => keyTarget(model, query, key));
  const select = printSelect(model, query, targets, rowFilter(selection), false);
  return `COPY (${checkStatement(select, selection)}) TO STDOUT (FORMAT binary)`;
}

/** The plan of `copySql`, as JSON. @param runs whether it computes all rows; default: it reads none */
export function explainSql(
  selection: Selection,
  columns: readonly SentColumn[],
  runs = false,
): string {
  return `EXPLAIN (${runs ? 'ANALYZE, TIMING OFF, ' : ''}FORMAT JSON) ${rowsSql(selection, columns, [])}`;
}

function rowsSql(
  selection: Selection,
  columns: readonly SentColumn[],
  keys: readonly SentColumn[],
): string {
  const { model, query } = selection;
  const outputs = outputsOf(model, query);
  if (
    columns.length !== outputs.length ||
    outputs.some(({ name }, index) => columns[index]?.name !== name)
  ) {
    throw new Error('The described columns are not those of the query.');
  }
  const targets = outputs.map((output, index) => {
    const { type, sentAs } = columns[index] ?? {};
    if (sentAs === 'text') return textTarget(output, (value) => value);
    if (type !== 'as_json') return plainTarget(output);
    return textTarget(output, (value) => `pg_catalog.to_json(${value})`);
  });
  targets.push(...keys.map((key) => keyTarget(model, query, key)));
  const isSorted = selection.element?.isUnique !== true;
  const select = printSelect(model, query, targets, rowFilter(selection), isSorted);
  return checkStatement(select, selection);
}

/**
 * In the order of `copySql` by key: exported files are checked against it.
 * @param columns of the model's keys; those of type `as_json` are sent as the text of their JSON
 */
export function copyKeysSql(selection: Selection, columns: readonly SentColumn[]): string {
  const { model, query } = selection;
  const targets = keyTexts(model, query, columns);
  const select = printSelect(model, query, targets, rowFilter(selection), true);
  return `COPY (${checkStatement(select, selection)}) TO STDOUT (FORMAT binary)`;
}

/**
 * Of the interval, whatever the query, as `late`. Rows have the lower half of an id: the newest with it is assumed. If
 * the server's ids have not reached `xmin` (rows restored from a dump) every row counts.
 * @param xmin a full transaction id, decimal
 */
export function countLateSql(selection: Selection, xmin: string): string {
  const { model } = selection;
  const target = () =>
    `pg_catalog.count(*) FILTER (WHERE ${isWrittenSince(`${sourceName}.xmin`, xmin)}) AS "late"`;
  return checkStatement(printSelect(model, null, [target], rowFilter(selection), false), selection);
}

const keptCharacters = 4_000_000;
const checked = new BoundedMap<string, true>(keptCharacters);

/** The second wall, once for all intervals: another bound, a literal in quotes, makes no other tree. Returns `sql`. */
export function checkStatement(sql: string, { model, tenantKey, range }: Selection): string {
  const shape = sql.replaceAll(range.start, '\0start').replaceAll(range.end, '\0end');
  const { schema, name } = model.relation;
  const key = JSON.stringify([schema, name, model.tenantColumn, tenantKey, shape]);
  if (checked.get(key)) return sql;
  checkWall(sql, model, tenantKey);
  checked.set(key, true, key.length);
  return sql;
}

type Target = (dialect: Dialect) => string;

/** Within a statement. The first is of the interval column. */
const orderName = (index: number): string => `sluice order ${index + 1}`;

export const plainTarget =
  ({ name, expression }: Output): Target =>
  (dialect) =>
    `${printExpression(expression, dialect)} AS ${quoteName(name)}`;

const textTarget =
  ({ name, expression }: Output, of: (value: string) => string): Target =>
  (dialect) =>
    `CAST(${of(printExpression(expression, dialect))} AS pg_catalog.text) AS ${quoteName(name)}`;

export function keyTarget(model: Model, query: ParsedQuery | null, key: SentColumn): Target {
  const place = model.keyColumns.indexOf(key.name) + 1;
  const value = serverDialect.column(query?.where ? orderName(place) : key.name);
  const json = `CAST(pg_catalog.to_json(${value}) AS pg_catalog.text)`;
  const sent = key.type === 'as_json' ? json : value;
  return () => `${sent} AS ${quoteName(`sluice key ${place}`)}`;
}

/**
 * With a tenant's condition a subquery filters the rows first, and OFFSET 0 keeps the planner from merging it. So a cast
 * that fails or a costly operator never runs on another tenant's row, and an error text cannot quote one. The subquery
 * sorts by the index; the planner sees that the outer order is the same.
 */
export function printSelect(
  model: Model,
  query: ParsedQuery | null,
  targets: readonly Target[],
  filter: Expression,
  ordered: boolean,
): string {
  const rows = `FROM ${relationOf(model)} AS ${sourceName} WHERE ${printExpression(filter, serverDialect)}`;
  const { intervalColumn, keyColumns } = model;
  const order = [intervalColumn ?? [], ...keyColumns].flat();
  const limits = query?.limits ?? new Map();
  const within = { ...relationDialect(model), limits };
  const outside = { ...serverDialect, limits };
  const orderBy = (columns: readonly string[]) =>
    ordered ? ` ORDER BY ${columns.map(serverDialect.column).join(', ')}` : '';
  const sorted = orderBy(order);
  if (!query?.where) return `SELECT ${printTargets(targets, within)} ${rows}${sorted}`;
  const names = order.map((_, index) => orderName(index + (intervalColumn === null ? 1 : 0)));
  const columns = [
    ...model.columns.map(({ name }) => `${within.column(name)} AS ${quoteName(name)}`),
    ...names.map((name, index) => {
      return `${serverDialect.column(order[index] ?? '')} AS ${quoteName(name)}`;
    }),
  ];
  const stillSorted = orderBy(names);
  return (
    `SELECT ${printTargets(targets, outside)} ` +
    `FROM (SELECT ${columns.join(', ')} ${rows}${sorted} OFFSET 0) AS ${sourceName} ` +
    `WHERE ${printExpression(query.where, outside)}${stillSorted}`
  );
}

const printTargets = (targets: readonly Target[], dialect: Dialect): string =>
  targets.map((target) => target(dialect)).join(', ');

function keyTexts(
  model: Model,
  query: ParsedQuery | null,
  columns: readonly SentColumn[],
): readonly Target[] {
  return model.keyColumns.map((name, index): Target => {
    const key = serverDialect.column(query?.where ? orderName(index + 1) : name);
    const value = columns[index]?.type === 'as_json' ? `pg_catalog.to_json(${key})` : key;
    return () => `CAST(${value} AS pg_catalog.text) AS ${quoteName(name)}`;
  });
}

/** Names over the relation itself: a column of the model may be an expression. */
function relationDialect(model: Model): Dialect {
  const expressions = new Map(model.columns.map(({ name, expression }) => [name, expression]));
  return serverDialectWith((name) => {
    const expression = expressions.get(name);
    return expression ? `(${expression})` : serverDialect.column(name);
  });
}

const never: Expression = { kind: 'keyword', keyword: 'FALSE' };

/** Whatever its query, in the form of `copyKeysSql`. @param columns as of `copyKeysSql` @param keys at least one */
export function elsewhereSql(
  selection: Selection,
  columns: readonly SentColumn[],
  keys: readonly KeyTexts[],
): string {
  const { model, tenantKey, range } = selection;
  if (model.intervalColumn === null) throw new Error(`${model.name} has no interval column`);
  const at = columnNamed(model.intervalColumn);
  const hasKey = keys.map((texts) =>
    conjunction(
      'AND',
      model.keyColumns.map((name, index) => isText(name, texts[index] ?? null)),
    ),
  );
  const filter = conjunction('AND', [
    ofTenant(selection),
    conjunction('OR', hasKey),
    conjunction('OR', [
      binary(at, '<', instant(range.start)),
      binary(at, '>=', instant(range.end)),
    ]),
  ]);
  // Not kept as checked: each has other keys.
  const sql = printSelect(model, null, keyTexts(model, null, columns), filter, false);
  return checkWall(sql, model, tenantKey);
}

export type KeyTexts = readonly (string | null)[];

function isText(name: string, text: string | null): Expression {
  const column = columnNamed(name);
  if (text === null) return { kind: 'test', test: 'IS NULL', operand: column };
  return binary(column, '=', literal(text));
}
