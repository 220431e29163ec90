import type { Model } from '../../foundation/domain/model.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import { BoundedMap } from './bounded-map.ts';
import type { Expression } from './expression.ts';
import type { Output, ParsedQuery } from './parse-query.ts';
import {
  type Dialect,
  printExpression,
  quoteName,
  serverDialect,
  serverDialectWith,
  sourceName,
} from './print.ts';
import { literal, rowFilter, type Selection } from './selection.ts';
import { conjunction } from './translate.ts';
import { checkWall } from './wall.ts';
import { isWrittenSince } from './written-since.ts';

export interface SentColumn extends Pick<Column, 'name' | 'type'> {
  /** Default: as they are, and of type `as_json` as the text of their JSON. `text`: as the text that PostgreSQL prints. */
  readonly sentAs?: 'text';
  /** The type that it is cast to, as SQL prints it. */
  readonly castTo?: string;
}

/** The qualified name of a model's relation, quoted. */
export function relationOf({ relation }: Pick<Model, 'relation'>): string {
  return `${quoteName(relation.schema)}.${quoteName(relation.name)}`;
}

/** The outputs of the statements below, in this order. */
export function outputsOf(model: Model, query: ParsedQuery | null): readonly Output[] {
  return (
    query?.outputs ??
    model.columns.map(({ name }) => ({ name, expression: { kind: 'column', name } }))
  );
}

/**
 * A statement whose columns the server is asked to describe. Even if it were run, it would find no row.
 *
 * Like every statement here it needs a session whose `search_path` begins with pg_catalog, and `TimeZone = UTC`.
 *
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

/**
 * Counts the rows of a selection, as `count`.
 *
 * @param limit it stops at so many rows; null: it counts all
 */
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
 * Sends the rows of a selection in COPY's binary format, sorted by the interval column, then the keys: in
 * the same order on every attempt.
 *
 * @param columns one per output of `outputsOf`, in its order, as the server described them; columns of type
 *   `as_json` are sent as the text of their JSON
 * @param keys key columns that follow the outputs, hidden from the readers of the rows
 */
export function copySql(
  selection: Selection,
  columns: readonly SentColumn[],
  keys: readonly SentColumn[] = [],
): string {
  return `COPY (${rowsSql(selection, columns, keys)}) TO STDOUT (FORMAT binary)`;
}

/** Sends the keys of the rows of a selection, in any order, each as `copySql` sends it. */
export function copyKeySetSql(selection: Selection, keys: readonly SentColumn[]): string {
  const { model, query } = selection;
  const targets = keys.map((key) => keyTarget(model, query, key));
  const select = printSelect(model, query, targets, rowFilter(selection), false);
  return `COPY (${checkStatement(select, selection)}) TO STDOUT (FORMAT binary)`;
}

/**
 * Makes the server explain, as JSON, how it finds and sorts the rows of `copySql`.
 *
 * @param runs whether it computes all rows, and throws them away; default: it reads no row
 */
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
    const { type, sentAs, castTo } = columns[index] ?? {};
    if (sentAs === 'text') return castTarget(output, 'pg_catalog.text');
    if (type === 'as_json') return jsonTarget(output, castTo);
    return castTo === undefined ? plainTarget(output) : castTarget(output, castTo);
  });
  targets.push(...keys.map((key) => keyTarget(model, query, key)));
  const isSorted = selection.element?.isUnique !== true;
  const select = printSelect(model, query, targets, rowFilter(selection), isSorted);
  return checkStatement(select, selection);
}

/**
 * Sends the keys of a selection's rows as text, one column per key, in the order of `copySql` by key:
 * exported files are checked against it.
 *
 * @param columns one per key of the model, in its order; columns of type `as_json` are sent as the text of
 *   their JSON
 */
export function copyKeysSql(selection: Selection, columns: readonly SentColumn[]): string {
  const { model, query } = selection;
  const targets = keyTexts(model, query, columns);
  const select = printSelect(model, query, targets, rowFilter(selection), true);
  return `COPY (${checkStatement(select, selection)}) TO STDOUT (FORMAT binary)`;
}

/**
 * Counts the rows of a selection's interval, whatever its query, that were written by transactions at or
 * after `xmin`, as `late`. Rows have only the lower half of a transaction id; it is assumed to be the
 * newest id with that half. On a server whose ids have not reached `xmin` (its rows were restored from a
 * dump) every row counts.
 *
 * @param xmin a full transaction id, decimal
 */
export function countLateSql(selection: Selection, xmin: string): string {
  const { model } = selection;
  const target = () =>
    `pg_catalog.count(*) FILTER (WHERE ${isWrittenSince(`${sourceName}.xmin`, xmin)}) AS "late"`;
  return checkStatement(printSelect(model, null, [target], rowFilter(selection), false), selection);
}

/**
 * Finds a row by the text of a value that the query casts: the model's keys as text, of the first one in the
 * order of `copySql`. Null if the query casts no column and no JSON path: what else it casts might fail again.
 */
export function findRowSql(selection: Selection, text: string): string | null {
  const { model, query } = selection;
  const operands = query ? castOperands([query.outputs, query.where]) : [];
  if (query === null || operands.length === 0) return null;
  const type = { name: 'text', modifiers: [], array: false };
  const isCast = operands.map((operand): Expression => {
    const left: Expression = { kind: 'cast', operand, type };
    return { kind: 'binary', operator: '=', left, right: literal(text) };
  });
  const targets = model.keyColumns.map((name, index): Target => {
    const key = serverDialect.column(orderName(index + 1));
    return () => `CAST(${key} AS pg_catalog.text) AS ${quoteName(name)}`;
  });
  const castQuery = { ...query, where: conjunction('OR', isCast) };
  const select = printSelect(model, castQuery, targets, rowFilter(selection), true);
  return `${checkStatement(select, selection)} LIMIT 1`;
}

/** The columns and JSON paths that are cast somewhere in a part of a query. */
function castOperands(part: unknown): readonly Expression[] {
  if (typeof part !== 'object' || part === null) return [];
  const { kind, operand } = part as { kind?: unknown; operand?: Expression };
  const isFound = kind === 'cast' && (operand?.kind === 'column' || operand?.kind === 'json');
  if (isFound) return [operand as Expression];
  return Object.values(part).flatMap(castOperands);
}

/** Characters of the statements that are kept as checked. */
const keptCharacters = 4_000_000;
const checked = new BoundedMap<string, true>(keptCharacters);

/**
 * The second wall, once for all intervals of a statement: a bound is a literal of digits and separators, in
 * single quotes wherever it is printed, so another bound in its place makes no other tree.
 *
 * @returns `sql` itself
 */
export function checkStatement(sql: string, { model, tenantKey, range }: Selection): string {
  const shape = sql.replaceAll(range.start, '\0start').replaceAll(range.end, '\0end');
  const { schema, name } = model.relation;
  const key = JSON.stringify([schema, name, model.tenantColumn, tenantKey, shape]);
  if (checked.get(key)) return sql;
  checkWall(sql, model, tenantKey);
  checked.set(key, true, key.length);
  return sql;
}

export type Target = (dialect: Dialect) => string;

/** The names, within a statement, of the columns that rows are sorted by. The first is of the interval column. */
const orderName = (index: number): string => `sluice order ${index + 1}`;

export const plainTarget =
  ({ name, expression }: Output): Target =>
  (dialect) =>
    `${printExpression(expression, dialect)} AS ${quoteName(name)}`;

const cast = (value: string, type: string): string => `CAST(${value} AS ${type})`;

const castTarget =
  ({ name, expression }: Output, type: string): Target =>
  (dialect) =>
    `${cast(printExpression(expression, dialect), type)} AS ${quoteName(name)}`;

const jsonTarget =
  ({ name, expression }: Output, castTo?: string): Target =>
  (dialect) => {
    const value = printExpression(expression, dialect);
    const json = `pg_catalog.to_json(${castTo === undefined ? value : cast(value, castTo)})`;
    return `${cast(json, 'pg_catalog.text')} AS ${quoteName(name)}`;
  };

/** A key column of the model, or its interval column, whether or not the query selects it. */
export function keyTarget(model: Model, query: ParsedQuery | null, key: SentColumn): Target {
  const place = model.keyColumns.indexOf(key.name) + 1;
  const value = serverDialect.column(query?.where ? orderName(place) : key.name);
  const json = `CAST(pg_catalog.to_json(${value}) AS pg_catalog.text)`;
  const sent = key.type === 'as_json' ? json : value;
  return () => `${sent} AS ${quoteName(`sluice key ${place}`)}`;
}

/**
 * Without a tenant's condition: one plain SELECT. With one: a subquery filters the rows first, and OFFSET 0
 * keeps the planner from merging it. The condition sees only the filtered rows. So a cast that fails or a
 * costly operator never runs on another tenant's row, whatever order the planner prefers, and an error text
 * cannot quote one. The subquery sorts by the index; the planner sees that the outer order is the same.
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

/** The keys as text; those of type `as_json` as the text of their JSON. */
export function keyTexts(
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
