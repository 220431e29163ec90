import { changeColumns } from '../../foundation/domain/element.ts';
import { isNumeric } from '../../foundation/domain/decimal-columns.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import { aliveFilter, changedFilter, versionSql } from './change-rows.ts';
import {
  checkStatement,
  keyTarget,
  type KeyTexts,
  plainTarget,
  printSelect,
  relationOf,
} from './select.ts';
import type { Expression } from './expression.ts';
import { printExpression, quoteName, quoteText, serverDialect } from './print.ts';
import { checkReads, eventFilter, ofTenant, type Selection } from './selection.ts';
import { conjunction } from './translate.ts';

/** The name, within a statement, of the column that says whether a row is not deleted. */
const aliveName = 'sluice alive';

/** Each statement has the model's keys and then the version; none for a base. */
export function copyDeletesSqls(selection: Selection, keys: readonly Column[]): readonly string[] {
  if (!selection.element || selection.element.from === null) return [];
  return [unwantedSql(selection, keys), tombstonesSql(selection, keys)].flatMap((sql) =>
    sql === null ? [] : [`COPY (${sql}) TO STDOUT (FORMAT binary)`],
  );
}

/** A marker, the events or the query leave them out. Null: nothing leaves any out. */
function unwantedSql(selection: Selection, keys: readonly Column[]): string | null {
  const { model, query, element } = selection;
  if (!element) return null;
  const alive = [...aliveFilter(element.changes), ...eventFilter(selection)];
  const isAlive = alive.length === 0 ? null : conjunction('AND', alive);
  const conditions = [
    ...(isAlive ? [{ kind: 'column', name: aliveName } as const] : []),
    ...(query?.where ? [query.where] : []),
  ];
  if (conditions.length === 0) return null;
  const where: Expression = {
    kind: 'test',
    test: 'IS NOT TRUE',
    operand: conjunction('AND', conditions),
  };
  const marker = {
    name: aliveName,
    expression: isAlive && printExpression(isAlive, serverDialect),
    sourceType: 'boolean',
    json: false,
  };
  const marked = isAlive ? { ...model, columns: [...model.columns, marker] } : model;
  const unwanted = { outputs: [], where, star: false, limits: query?.limits ?? new Map() };
  const version = { kind: 'column', name: changeColumns.version } as const;
  const targets = [
    ...keys.map((key) => keyTarget(marked, unwanted, key)),
    plainTarget({ name: changeColumns.version, expression: version }),
  ];
  const changed = changedFilter(element.changes, element);
  const filter = conjunction('AND', [ofTenant(selection), ...changed]);
  return checkStatement(printSelect(marked, unwanted, targets, filter, false), selection);
}

/** The newest of each key that is not in the table. Null: the model has none. */
function tombstonesSql(
  { model, tenantKey, element }: Selection,
  keys: readonly Column[],
): string | null {
  const deletes = element?.changes.deletes;
  if (!element || deletes?.kind !== 'tombstones') return null;
  const { versionColumn } = element.changes;
  const of = (name: string) => `"gone".${quoteName(name)}`;
  const names = model.keyColumns.map(of);
  const sent = keys.map((key, index) => sentKey(key, names[index] ?? ''));
  const tenant = `${quoteName(model.tenantColumn)} = ${quoteText(tenantKey)}`;
  const same = keys.flatMap((key, index) => {
    const [gone, here] = [names[index] ?? '', `"here".${quoteName(model.keyColumns[index] ?? '')}`];
    const [a, b] = [spelled(key, here), spelled(key, gone)];
    return a === here ? [`${here} = ${gone}`] : [`${here} = ${gone}`, `${a} = ${b}`];
  });
  const order = keys.map((key, index) => spelled(key, names[index] ?? '')).join(', ');
  const changed = changedFilter(element.changes, { ...element, newTables: [] });
  const isChanged = changed.map((part) =>
    printExpression(part, { ...serverDialect, column: (name) => of(name) }),
  );
  const sql = `SELECT DISTINCT ON (${order}) ${sent.join(', ')}, ${versionSql(of(versionColumn), element.versionType)}
    FROM ${relationOf(deletes)} AS "gone" WHERE "gone".${tenant} AND ${isChanged.join(' AND ')}
     AND NOT EXISTS (SELECT FROM ${relationOf(model)} AS "here" WHERE "here".${tenant} AND ${same.join(' AND ')})
    ORDER BY ${order}, ${of(versionColumn)} DESC`;
  return checkReads(sql, [deletes.relation, model.relation]);
}

/** As those of deletes are sent. @param columns the model's keys and then the version, which is not known */
export function copyGivenSql(columns: readonly Column[], keys: readonly KeyTexts[]): string {
  const [version] = columns.slice(-1);
  const names = columns.slice(0, -1).map((_, index) => quoteName(`key ${index}`));
  const rows = keys.map((texts) => `(${names.map((_, index) => given(texts[index])).join(', ')})`);
  const sent = names.map((name, index) => sentKey(columns[index], name));
  const sql = `SELECT ${sent.join(', ')}, CAST(NULL AS ${version?.sourceType})
    FROM (VALUES ${rows.join(', ')}) AS "given" (${names.join(', ')})`;
  return `COPY (${checkReads(sql, [])}) TO STDOUT (FORMAT binary)`;
}

/** As readers tell keys apart: equal citext, or intervals, are spelled differently. Numbers are equal to readers too. */
function spelled(key: Column, name: string): string {
  if (key.type !== 'text' && (key.type !== 'as_json' || isNumeric(key))) return name;
  return `CAST(${key.type === 'text' ? name : sentKey(key, name)} AS pg_catalog.text) COLLATE "C"`;
}

const given = (text: string | null | undefined): string =>
  text === null || text === undefined ? 'NULL' : quoteText(text);

function sentKey(column: Column | undefined, name: string): string {
  const key = `CAST(${name} AS ${column?.sourceType})`;
  return column?.type === 'as_json' ? `CAST(pg_catalog.to_json(${key}) AS pg_catalog.text)` : key;
}
