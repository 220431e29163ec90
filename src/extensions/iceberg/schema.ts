import { SluiceError } from '../../foundation/domain/errors.ts';
import type { TableField, TableType } from '../../foundation/domain/table-field.ts';

/** A version of a table's columns. Schemas are never changed, only added. */
export interface TableSchema {
  readonly type: 'struct';
  readonly 'schema-id': number;
  readonly fields: readonly TableField[];
}

/**
 * The columns of a table that gets rows of other columns: new ones come last, and a column that the rows lack
 * stays, as null of the new rows. A type becomes wider as Iceberg allows it.
 *
 * @throws SluiceError `destination.table_conflict` if a column has another type now
 */
export function joinFields(
  table: readonly TableField[],
  rows: readonly TableField[],
): readonly TableField[] {
  const own = new Map(rows.map((field) => [field.id, field]));
  const ids = new Set(table.map(({ id }) => id));
  const joined = table.map((field) => {
    const other = own.get(field.id);
    return other ? { ...field, type: joinTypes(field, other) } : field;
  });
  return [...joined, ...rows.filter(({ id }) => !ids.has(id))];
}

function joinTypes({ name, type: ofTable }: TableField, rows: TableField): TableType {
  const ofRows = rows.type;
  if (rows.name === name) {
    if (isWithin(ofRows, ofTable)) return ofTable;
    if (isWithin(ofTable, ofRows)) return ofRows;
  }
  const detail = `column ${rows.name} is ${describe(ofTable)} in the Iceberg table, and ${describe(ofRows)} in the rows`;
  throw new SluiceError('destination.table_conflict', detail);
}

/** Says whether Iceberg reads values of one type as the other. */
function isWithin(narrow: TableType, wide: TableType): boolean {
  if (typeof narrow !== 'string' || typeof wide !== 'string') {
    if (typeof narrow === 'string' || typeof wide === 'string') return false;
    return isWithin(narrow.element, wide.element);
  }
  if (narrow === wide) return true;
  if (narrow === 'int') return wide === 'long';
  if (narrow === 'float') return wide === 'double';
  const [few, scale] = digitsOf(narrow);
  const [many, scaleOfWide] = digitsOf(wide);
  return few !== undefined && many !== undefined && scale === scaleOfWide && few <= many;
}

function digitsOf(type: string): readonly (number | undefined)[] {
  const decimal = /^decimal\((\d+), (\d+)\)$/.exec(type);
  return decimal ? [Number(decimal[1]), Number(decimal[2])] : [];
}

const describe = (type: TableType): string =>
  typeof type === 'string' ? type : `list of ${type.element}`;

/** The highest id of the fields, elements of lists included. */
export function highestId(fields: readonly TableField[]): number {
  return fields.reduce(
    (highest, { id, type }) =>
      Math.max(highest, id, typeof type === 'string' ? 0 : type['element-id']),
    0,
  );
}
