import { createHash } from 'node:crypto';
import { type DecimalColumn, isNumeric } from '../../../foundation/domain/decimal-columns.ts';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { TimeAs } from '../../../foundation/domain/format-settings.ts';
import type { Column } from '../../../foundation/domain/row-block.ts';
import type { TableField } from '../../../foundation/domain/table-field.ts';
import { type ParquetType, parquetTypes } from './column-types.ts';
import { elementFormOf, type JsonForm, jsonNumberOf } from './json-forms.ts';
import { decimalNumber, type JsonNumber } from './json-numbers.ts';

export interface ParquetColumn {
  readonly name: string;
  readonly type: ParquetType;
  readonly isList: boolean;
  readonly form: ColumnForm;
  /** If the file belongs to a table; the element's is of a list. */
  readonly ids?: { readonly field: number; readonly element: number };
}

export type ColumnForm =
  /** The field is as in the block, by the column's type. */
  | { readonly kind: 'field'; readonly type: Column['type'] }
  /** The content of a JSON string as text, other JSON as it is. */
  | { readonly kind: 'plain' }
  | { readonly kind: 'number'; readonly number: JsonNumber }
  | { readonly kind: 'list'; readonly element: JsonForm };

/** @param decimals numerics that are DECIMAL by choice @param timeAs `text`: Spark refuses a file with the type TIME */
export function planColumns(
  columns: readonly Column[],
  decimals: readonly DecimalColumn[] | null = null,
  timeAs: TimeAs = 'micros',
): readonly ParquetColumn[] {
  return columns.map((column) => {
    const chosen = decimals?.find(({ name }) => name === column.name);
    const form = formOf(column, chosen, timeAs);
    return { name: column.name, type: typeOf(form), isList: form.kind === 'list', form };
  });
}

const fieldForm = ({ type }: Column): ColumnForm => ({ kind: 'field', type });

function formOf(column: Column, chosen: DecimalColumn | undefined, timeAs: TimeAs): ColumnForm {
  const { sourceType } = column;
  if (column.type !== 'as_json') return fieldForm(column);
  if (sourceType.endsWith('[]')) {
    const element = elementFormOf(sourceType, timeAs);
    return element ? { kind: 'list', element } : fieldForm(column);
  }
  const number =
    chosen && isNumeric(column)
      ? decimalNumber(chosen.precision, chosen.scale)
      : jsonNumberOf(sourceType, timeAs);
  return number ? { kind: 'number', number } : { kind: 'plain' };
}

function typeOf(form: ColumnForm): ParquetType {
  if (form.kind === 'field') return parquetTypes[form.type];
  if (form.kind === 'plain') return parquetTypes.text;
  return form.kind === 'number' ? form.number.type : form.element.type;
}

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
      ? { type: 'list', 'element-id': ids.element, element: tableType, 'element-required': false }
      : tableType,
  }));
}

/** As Iceberg's own writers do, for readers that look there. */
export function schemaNote(columns: readonly ParquetColumn[]): readonly [string, string] {
  const schema = { type: 'struct', 'schema-id': 0, fields: tableFieldsOf(columns) };
  return ['iceberg.schema', JSON.stringify(schema)];
}
