import { changeColumns, changeOps } from '../../foundation/domain/element.ts';
import type { Model, ModelChanges, ModelColumn } from '../../foundation/domain/model.ts';
import type { Expression } from './expression.ts';
import type { Output, ParsedQuery } from './parse-query.ts';
import { quoteName, quoteText } from './print.ts';
import { conjunction } from './translate.ts';

/** The parts of an element that decide its rows: `sources/source.ts: ElementRequest`. */
export interface ElementBounds {
  readonly number: number;
  readonly versionType: 'xid8' | 'timestamp with time zone';
  readonly from: string | null;
  readonly newTables: readonly string[];
  readonly isUnique?: boolean;
}

const text = 'pg_catalog.text';

/** The version as files have it: a bigint of an xid8, which has no cast of its own. @param column quoted */
export const versionSql = (column: string, type: ElementBounds['versionType']): string =>
  type === 'xid8' ? `CAST(CAST(${column} AS ${text}) AS pg_catalog.int8)` : column;

/** A model whose rows also have operation, version and element. */
export function withChangeColumns(
  model: Model,
  { versionColumn }: ModelChanges,
  { number, versionType, from }: ElementBounds,
): Model {
  const op = from === null ? changeOps.base : changeOps.upsert;
  const version = versionSql(quoteName(versionColumn), versionType);
  const add = (name: string, sourceType: string, expression: string): ModelColumn => {
    return { name, sourceType, expression, json: false };
  };
  const more = [
    add(changeColumns.op, 'text', `CAST(${quoteText(op)} AS ${text})`),
    add(changeColumns.version, versionType === 'xid8' ? 'bigint' : versionType, version),
    add(changeColumns.element, 'bigint', `CAST('${wholeNumber(number)}' AS pg_catalog.int8)`),
  ];
  return { ...model, columns: [...model.columns, ...more] };
}

/** A query that selects operation, version and element after what it selects. */
export function withChangeOutputs(query: ParsedQuery): ParsedQuery {
  const more = Object.values(changeColumns).map((name): Output => {
    return { name, expression: { kind: 'column', name } };
  });
  return { ...query, outputs: [...query.outputs, ...more] };
}

const column = (name: string): Expression => ({ kind: 'column', name });
const string = (value: string): Expression => ({ kind: 'string', value });

function wholeNumber(value: number | string): string {
  if (!/^\d+$/.test(String(value))) throw new Error('A whole number is expected.');
  return String(value);
}

/** The rows of an element; empty for a base. */
export function changedFilter(
  { versionColumn }: ModelChanges,
  { from, versionType, newTables }: ElementBounds,
): readonly Expression[] {
  if (from === null) return [];
  const form = versionType === 'xid8' ? /^\d+$/ : /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$/;
  if (!form.test(from)) throw new Error('A version is a transaction id or a time.');
  const name = versionType === 'xid8' ? 'xid8' : 'timestamptz';
  const type = { name, modifiers: [], array: false };
  const isChanged: Expression = {
    kind: 'binary',
    operator: '>=',
    left: column(versionColumn),
    right: { kind: 'cast', operand: string(from), type },
  };
  if (newTables.length === 0) return [isChanged];
  const items = newTables.map((id) => string(wholeNumber(id)));
  const isNew: Expression = { kind: 'in', negated: false, operand: column('tableoid'), items };
  return [conjunction('OR', [isChanged, isNew])];
}

/** Rows that are not marked as deleted; empty if no column marks them. */
export function aliveFilter({ deletes }: ModelChanges): readonly Expression[] {
  if (deletes.kind !== 'column') return [];
  // The text of a value says whether it is a boolean.
  const type = { name: 'text', modifiers: [], array: false };
  const marker: Expression = { kind: 'cast', operand: column(deletes.column), type };
  const marking: Expression = {
    kind: 'form',
    name: 'COALESCE',
    arguments: [marker, string('false')],
  };
  return [{ kind: 'binary', operator: '=', left: marking, right: string('false') }];
}
