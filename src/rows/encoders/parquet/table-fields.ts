import { createHash } from 'node:crypto';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { TableField } from '../../../foundation/domain/table-field.ts';
import type { ParquetColumn } from './schema.ts';

/** It follows from the name alone: any two runs agree on it without asking the table. */
function fieldIdOf(name: string): number {
  return 1 + (createHash('sha256').update(name).digest().readUInt32BE(0) >>> 2);
}

/** PostgreSQL's names have no NUL. */
const elementOf = (name: string): string => `${name}\0element`;

/** @throws SluiceError `query.invalid` if two names have the same id */
export function withFieldIds(
  columns: readonly ParquetColumn[],
): readonly (ParquetColumn & Required<Pick<ParquetColumn, 'ids'>>)[] {
  const names = new Map<number, string>();
  const claim = (id: number, name: string): number => {
    const other = names.get(id);
    if (other !== undefined) {
      const detail = `columns ${other} and ${name} have the same id in an Iceberg table; rename one`;
      throw new SluiceError('query.invalid', detail);
    }
    names.set(id, name);
    return id;
  };
  return columns.map((column) => {
    const { name, isList } = column;
    const field = claim(fieldIdOf(name), name);
    const element = fieldIdOf(elementOf(name));
    if (isList) claim(element, name);
    return { ...column, ids: { field, element } };
  });
}

export function tableFieldsOf(columns: readonly ParquetColumn[]): readonly TableField[] {
  return withFieldIds(columns).map(({ name, type: { tableType }, isList, ids }) => ({
    id: ids.field,
    name,
    required: false,
    type: isList
      ? {
          type: 'list',
          'element-id': ids.element,
          element: tableType,
          'element-required': false,
        }
      : tableType,
  }));
}

/** As Iceberg's own writers do, for readers that look there. */
export function schemaNote(columns: readonly ParquetColumn[]): readonly [string, string] {
  const schema = { type: 'struct', 'schema-id': 0, fields: tableFieldsOf(columns) };
  return ['iceberg.schema', JSON.stringify(schema)];
}
