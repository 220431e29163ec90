import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { Model, ModelColumn } from '../../../foundation/domain/model.ts';
import { typeOidOf } from './catalog.ts';
import type { DescribedColumn } from './column-types.ts';

export interface TypeChange {
  readonly column: string;
  readonly declared: string;
  readonly found: string;
}

/**
 * Modifiers count only for numeric, if the model has one. The server is asked only about names that differ: a domain, or
 * another spelling. @param found the same columns as the server described them
 */
export async function findTypeChanges(
  client: pg.Client,
  columns: readonly ModelColumn[],
  found: readonly DescribedColumn[],
  signal: AbortSignal,
): Promise<readonly TypeChange[]> {
  const changes: TypeChange[] = [];
  for (const [index, { name, sourceType: declared }] of columns.entries()) {
    const real = found[index];
    if (!real || isSame(declared, real.sourceType)) continue;
    if (!numericModifier(declared) && (await typeOidOf(client, declared, signal)) === real.typeOid)
      continue;
    changes.push({ column: name, declared, found: real.sourceType });
  }
  return changes;
}

const aliases: Readonly<Record<string, string>> = {
  int2: 'smallint',
  int: 'integer',
  int4: 'integer',
  int8: 'bigint',
  float4: 'real',
  float: 'double precision',
  float8: 'double precision',
  varchar: 'character varying',
  char: 'character',
  bpchar: 'character',
};

function withoutModifier(type: string): string {
  const name = type
    .replace(/\([^)]*\)/, '')
    .replace(/^pg_catalog\./, '')
    .trim();
  return aliases[name.toLowerCase()] ?? name;
}

/** Precision, scale, and the brackets of an array. */
const numericModifier = (type: string): readonly [number, number, string] | null => {
  const [, precision, scale = '0', brackets = ''] =
    /^(?:numeric|decimal|dec)\s*\(\s*(\d+)\s*(?:,\s*(-?\d+)\s*)?\)((?:\[\])*)$/i.exec(
      type.trim(),
    ) ?? [];
  return precision === undefined ? null : [Number(precision), Number(scale), brackets];
};

/** Without digits in the model a numeric has none in the files, whatever digits the column has. */
export function writtenType(model: Model, column: string, found: string): string {
  const declared = model.columns.find(({ name }) => name === column)?.sourceType ?? found;
  const isOpen = /^(?:numeric|decimal|dec)(?:\[\])*$/i.test(declared.trim());
  return isOpen && model.onSchemaChange !== 'follow' && numericModifier(found)
    ? withoutModifier(found)
    : found;
}

function isSame(declared: string, found: string): boolean {
  const [one, other] = [numericModifier(declared), numericModifier(found)];
  if (one) return one.join() === other?.join();
  return withoutModifier(declared) === withoutModifier(found);
}

export function describeTypeFault(model: Model, change: TypeChange): string | null {
  if (model.onSchemaChange === 'follow') return null;
  const { column, declared, found } = change;
  return `column ${column} is ${found} in the database, but ${declared} in the model ${model.name}`;
}

/** @throws SluiceError `source.schema_changed` unless the model allows them */
export function refuseTypeChanges(model: Model, changes: readonly TypeChange[]): void {
  const faults = changes.flatMap((change) => describeTypeFault(model, change) ?? []);
  if (faults.length > 0) throw new SluiceError('source.schema_changed', faults.join('; '));
}

export function describeTypeChange({ column, declared, found }: TypeChange): string {
  return `The type of column ${column} has changed: it is ${found} in the database, and ${declared} in the model. on_schema_change allows it.`;
}
