import type { Column } from '../../domain/row-block.ts';
import { type ParquetType, parquetTypes } from './column-types.ts';
import { elementFormOf, type JsonForm, jsonNumberOf } from './json-forms.ts';
import type { JsonNumber } from './json-numbers.ts';

/** A column of rows as a column of a Parquet file. */
export interface ParquetColumn {
  readonly name: string;
  /** Of the values; of the elements of a list. */
  readonly type: ParquetType;
  readonly isList: boolean;
  /** How a field becomes values. */
  readonly form: ColumnForm;
  /** If the file belongs to a table; the element's is of a list. */
  readonly ids?: { readonly field: number; readonly element: number };
}

export type ColumnForm =
  /** As in the block, by the column's type. */
  | { readonly kind: 'field'; readonly type: Column['type'] }
  /** The content of a JSON string as text, other JSON as it is. */
  | { readonly kind: 'plain' }
  | { readonly kind: 'number'; readonly number: JsonNumber }
  | { readonly kind: 'list'; readonly element: JsonForm };

/** Plans a file of the schema version; README.md has a table of both. */
export function planColumns(columns: readonly Column[], schema: number): readonly ParquetColumn[] {
  return columns.map((column) => {
    const form = schema === 1 ? fieldForm(column) : formOf(column);
    return { name: column.name, type: typeOf(form), isList: form.kind === 'list', form };
  });
}

const fieldForm = ({ type }: Column): ColumnForm => ({ kind: 'field', type });

function formOf(column: Column): ColumnForm {
  const { type, sourceType } = column;
  if (type !== 'as_json') return fieldForm(column);
  if (sourceType.endsWith('[]')) {
    const element = elementFormOf(sourceType);
    return element ? { kind: 'list', element } : fieldForm(column);
  }
  const number = jsonNumberOf(sourceType);
  return number ? { kind: 'number', number } : { kind: 'plain' };
}

function typeOf(form: ColumnForm): ParquetType {
  switch (form.kind) {
    case 'field':
      return parquetTypes[form.type];
    case 'plain':
      return parquetTypes.text;
    case 'number':
      return form.number.type;
    case 'list':
      return form.element.type;
  }
}
