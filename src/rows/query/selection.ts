import { parseSync } from 'libpg-query';
import { SluiceError } from '../../foundation/domain/errors.ts';
import type { Model, ModelChanges } from '../../foundation/domain/model.ts';
import type { Timestamp } from '../../foundation/domain/time.ts';
import { aliveFilter, changedFilter, type ElementBounds } from './change-rows.ts';
import { binary, castTo, columnNamed, type Expression } from './expression.ts';
import { type Fields, isFields, listOf, namesIn } from './nodes.ts';
import type { ParsedQuery } from './parse-query.ts';
import { sourceName } from './print.ts';
import { conjunction } from './translate.ts';

export interface Selection {
  readonly model: Model;
  /** Null: all columns of the model and every row. */
  readonly query: ParsedQuery | null;
  readonly tenantKey: string;
  /** Instead of the rows of a range; missing: none. */
  readonly element?: (ElementBounds & { readonly changes: ModelChanges }) | null;
  /** Half-open, by the interval column; exact to the microsecond. Without such a column every row is selected. */
  readonly range: { readonly start: Timestamp; readonly end: Timestamp };
  /** Only rows with one of these events; null or empty: all. */
  readonly includeEvents: readonly string[] | null;
  /** Without rows with one of these events; a row without an event stays. */
  readonly excludeEvents: readonly string[] | null;
}

/** Untyped, so that it takes the column's type. */
export const ofTenant = ({ model, tenantKey }: Selection): Expression =>
  binary(columnNamed(model.tenantColumn), '=', literal(tenantKey));

/** Literals: nothing is pasted into text. */
export function rowFilter(selection: Selection): Expression {
  const { model, range, element } = selection;
  const { intervalColumn: at } = model;
  const bound = (operator: string, time: Timestamp) =>
    at === null ? [] : [binary(columnNamed(at), operator, instant(time))];
  return conjunction('AND', [
    ofTenant(selection),
    ...(element ? changedFilter(element.changes, element) : []),
    ...(element ? aliveFilter(element.changes) : []),
    ...bound('>=', range.start),
    ...bound('<', range.end),
    ...eventFilter(selection),
  ]);
}

export function eventFilter({ model, includeEvents, excludeEvents }: Selection): Expression[] {
  const events = (names: readonly string[]): Expression => {
    if (model.eventColumn === null) {
      const detail = `${model.name} has no event column. Remove include_events and exclude_events.`;
      throw new SluiceError('query.invalid', detail);
    }
    const operand = columnNamed(model.eventColumn);
    return { kind: 'in', negated: false, operand, items: names.map(literal) };
  };
  return [
    ...(includeEvents?.length ? [events(includeEvents)] : []),
    ...(excludeEvents?.length
      ? [{ kind: 'test', test: 'IS NOT TRUE', operand: events(excludeEvents) } as const]
      : []),
  ];
}

export function literal(value: string): Expression {
  // A literal cannot contain a NUL, and a lone surrogate would become another character.
  if (/\0|\p{Cs}/u.test(value)) {
    const detail = 'An event name contains a NUL or half of a surrogate pair. Remove it.';
    throw new SluiceError('query.invalid', detail);
  }
  return { kind: 'string', value };
}

export function instant(timestamp: Timestamp): Expression {
  if (!/^\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/.test(timestamp)) {
    throw new Error('A bound is a UTC timestamp with microseconds.');
  }
  return castTo(literal(timestamp), 'timestamptz');
}

const otherReads: readonly string[] = [
  'SubLink',
  'JoinExpr',
  'RangeFunction',
  'RangeTableFunc',
  'RangeTableSample',
  'JsonTable',
  'CommonTableExpr',
];

/**
 * PostgreSQL's parser reads the printed statement, however it was made: one SELECT of one relation, the model's,
 * directly under a WHERE that is the tenant, or whose first level of ANDs contains it. @returns `sql` itself @throws
 * Error if the statement is anything else: a bug of this room, never the caller's fault
 */
export function checkWall(sql: string, model: Model, tenantKey: string): string {
  const statements = parseSync(sql).stmts ?? [];
  const reads = findAll(statements, 'RangeVar');
  const [relation] = reads;
  const selects = findAll(statements, 'SelectStmt').filter((select) =>
    listOf(select.fromClause).some((from) => isFields(from) && isFields(from.RangeVar)),
  );
  const holds =
    statements.length === 1 &&
    reads.length === 1 &&
    otherReads.every((tag) => findAll(statements, tag).length === 0) &&
    relation?.schemaname === model.relation.schema &&
    relation.relname === model.relation.name &&
    relation.catalogname === undefined &&
    selects.length === 1 &&
    selects.every(({ whereClause }) => holdsTenant(whereClause, model, tenantKey));
  if (!holds) throw new Error(`A statement over ${model.name} is not limited to its tenant.`);
  return sql;
}

/** Of a statement without a customer's text: it reads these alone, in this order. Returns `sql`. @throws Error else */
export function checkReads(sql: string, relations: readonly Model['relation'][]): string {
  const statements = parseSync(sql).stmts ?? [];
  const reads = findAll(statements, 'RangeVar').map(({ schemaname, relname }) =>
    JSON.stringify([schemaname, relname]),
  );
  const expectedReads = relations.map(({ schema, name }) => JSON.stringify([schema, name]));
  if (statements.length !== 1 || reads.join() !== expectedReads.join()) {
    throw new Error('A statement reads other relations than it should.');
  }
  return sql;
}

function holdsTenant(where: unknown, model: Model, tenant: string): boolean {
  if (isTenant(where, model, tenant)) return true;
  if (!isFields(where) || !isFields(where.BoolExpr)) return false;
  const { boolop, args } = where.BoolExpr;
  return boolop === 'AND_EXPR' && listOf(args).some((part) => isTenant(part, model, tenant));
}

function isTenant(part: unknown, model: Model, tenant: string): boolean {
  if (!isFields(part) || !isFields(part.A_Expr)) return false;
  const { kind, name, lexpr, rexpr } = part.A_Expr;
  if (kind !== 'AEXPR_OP' || namesIn(name).join() !== '=') return false;
  if (!isFields(lexpr) || !isFields(lexpr.ColumnRef)) return false;
  if (!isFields(rexpr) || !isFields(rexpr.A_Const) || !isFields(rexpr.A_Const.sval)) return false;
  const [source, column, ...more] = namesIn(lexpr.ColumnRef.fields);
  return (
    source === sourceName &&
    column === model.tenantColumn &&
    more.length === 0 &&
    rexpr.A_Const.sval.sval === tenant
  );
}

function findAll(node: unknown, tag: string): readonly Fields[] {
  if (Array.isArray(node)) return node.flatMap((part) => findAll(part, tag));
  if (!isFields(node)) return [];
  return Object.entries(node).flatMap(([key, value]) => [
    ...(key === tag && isFields(value) ? [value] : []),
    ...findAll(value, tag),
  ]);
}

/** Null if it is one expression that reads no relation: the operator is trusted, so it may call anything. */
export function checkModelExpression(expression: string): string | null {
  try {
    // Exactly as it is printed later, so that a closing parenthesis or a comment is found.
    const statements: readonly unknown[] = parseSync(`SELECT (${expression})`).stmts ?? [];
    const [select, ...more] = findAll(statements, 'SelectStmt');
    const isOne =
      statements.length === 1 && more.length === 0 && listOf(select?.targetList).length === 1;
    const clauses = Object.keys(select ?? {}).filter(
      (name) => !['targetList', 'limitOption', 'op'].includes(name),
    );
    return isOne && clauses.length === 0 ? null : 'is not one expression without a subquery';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

export function columnsOfExpression(expression: string): readonly string[] {
  const refs = findAll(parseSync(`SELECT (${expression})`).stmts ?? [], 'ColumnRef');
  return refs.flatMap(({ fields }) => namesIn(fields).slice(-1)).filter((name) => name !== null);
}
