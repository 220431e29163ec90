import type { Model } from '../../src/foundation/domain/model.ts';

/** A column of a model. */
export const plainColumn = (
  name: string,
  sourceType: string,
  expression: string | null = null,
): Model['columns'][number] => {
  return { name, expression, sourceType, json: sourceType.startsWith('json') };
};

/** Columns by their types. */
export const plainColumns = (types: Readonly<Record<string, string>>) =>
  Object.entries(types).map(([name, sourceType]) => plainColumn(name, sourceType));

/** The model of a table of the same name, unless a test says others. */
export const plainModel = (
  name: string,
  types: Readonly<Record<string, string>> = { id: 'integer' },
  changes: Partial<Model> = {},
): Model => ({
  name,
  relation: { schema: 'public', name },
  tenantColumn: 'team',
  intervalColumn: 'at',
  keyColumns: ['id'],
  eventColumn: null,
  columns: plainColumns(types),
  ...changes,
});
