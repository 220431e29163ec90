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

/** The type that a column is sent with in place of its own. */
interface WiderType {
  readonly typeOid: number;
  readonly sourceType: string;
  /** The type as SQL prints it. */
  readonly sql: string;
}

/** By the column's name. */
export type WiderTypes = ReadonlyMap<string, WiderType>;

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

/** Each type can hold every value of those before it. */
const families: readonly (readonly string[])[] = [
  ['smallint', 'integer', 'bigint'],
  ['real', 'double precision'],
];

const sqlNames: Readonly<Record<string, WiderType>> = {
  integer: { typeOid: 23, sourceType: 'integer', sql: 'pg_catalog.int4' },
  bigint: { typeOid: 20, sourceType: 'bigint', sql: 'pg_catalog.int8' },
  'double precision': { typeOid: 701, sourceType: 'double precision', sql: 'pg_catalog.float8' },
};

/** Types that files store in the same way. */
const texts: ReadonlySet<string> = new Set(['text', 'character varying', 'character', 'name']);

/** The one that can hold all values of the other; null if neither can. */
function widerOf(change: TypeChange): 'found' | 'declared' | null {
  const [before, now] = [numericModifier(change.declared), numericModifier(change.found)];
  const [declared, found] = [withoutModifier(change.declared), withoutModifier(change.found)];
  if (texts.has(declared) && texts.has(found)) return 'found';
  if (before && now) {
    if (before[1] !== now[1] || before[2] !== '' || now[2] !== '') return null;
    return now[0] > before[0] ? 'found' : 'declared';
  }
  const family = families.find((types) => types.includes(declared) && types.includes(found));
  if (!family) return null;
  return family.indexOf(found) > family.indexOf(declared) ? 'found' : 'declared';
}

function typeNamed(declared: string): WiderType | null {
  const modifier = numericModifier(declared);
  if (!modifier) return sqlNames[withoutModifier(declared)] ?? null;
  const sourceType = `numeric(${modifier[0]},${modifier[1]})`;
  return { typeOid: 1700, sourceType, sql: `pg_catalog.${sourceType}` };
}

export function describeTypeFault(model: Model, change: TypeChange): string | null {
  const { onSchemaChange: policy = 'fail' } = model;
  if (policy === 'follow' || (policy === 'widen' && widerOf(change) !== null)) return null;
  const { column, declared, found } = change;
  const detail = `column ${column} is ${found} in the database, but ${declared} in the model ${model.name}`;
  return policy === 'widen' ? `${detail}, and neither type is wider` : detail;
}

/** The columns that are sent with the wider type of the model. @throws SluiceError `source.schema_changed` */
export function applyTypeChanges(model: Model, changes: readonly TypeChange[]): WiderTypes {
  const faults = changes.flatMap((change) => describeTypeFault(model, change) ?? []);
  if (faults.length > 0) throw new SluiceError('source.schema_changed', faults.join('; '));
  if (model.onSchemaChange !== 'widen') return new Map();
  return new Map(
    changes.flatMap((change): [string, WiderType][] => {
      const wider = widerOf(change) === 'declared' ? typeNamed(change.declared) : null;
      // Keys are compared by their bytes.
      return wider && !model.keyColumns.includes(change.column) ? [[change.column, wider]] : [];
    }),
  );
}

export function describeTypeChange({ column, declared, found }: TypeChange): string {
  return `The type of column ${column} has changed: it is ${found} in the database, and ${declared} in the model. on_schema_change allows it.`;
}
