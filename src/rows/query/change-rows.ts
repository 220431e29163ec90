import { changeColumns, changeOps } from '../../foundation/domain/element.ts';
import type { Model, ModelChanges, ModelColumn } from '../../foundation/domain/model.ts';
import { binary, castTo, columnNamed, type Expression } from './expression.ts';
import type { Output, ParsedQuery } from './parse-query.ts';
import { quoteName, quoteText } from './print.ts';
import { conjunction } from './translate.ts';

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
    return { name, expression: columnNamed(name) };
  });
  return { ...query, outputs: [...query.outputs, ...more] };
}

const string = (value: string): Expression => ({ kind: 'string', value });

function wholeNumber(value: number | string): string {
  if (!/^\d+$/.test(String(value))) throw new Error('A whole number is expected.');
  return String(value);
}

/** Empty for a base. */
export function changedFilter(
  { versionColumn }: ModelChanges,
  { from, versionType, newTables }: ElementBounds,
): readonly Expression[] {
  if (from === null) return [];
  const form = versionType === 'xid8' ? /^\d+$/ : /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$/;
  if (!form.test(from)) throw new Error('A version is a transaction id or a time.');
  const version = castTo(string(from), versionType === 'xid8' ? 'xid8' : 'timestamptz');
  const isChanged = binary(columnNamed(versionColumn), '>=', version);
  if (newTables.length === 0) return [isChanged];
  const items = newTables.map((id) => string(wholeNumber(id)));
  const isNew: Expression = { kind: 'in', negated: false, operand: columnNamed('tableoid'), items };
  return [conjunction('OR', [isChanged, isNew])];
}

/** Empty if no column marks deleted ones. */
export function aliveFilter({ deletes }: ModelChanges): readonly Expression[] {
  if (deletes.kind !== 'column') return [];
  // The text of a value says whether it is a boolean.
  const marker = castTo(columnNamed(deletes.column), 'text');
  const marking: Expression = {
    kind: 'form',
    name: 'COALESCE',
    arguments: [marker, string('false')],
  };
  return [binary(marking, '=', string('false'))];
}
