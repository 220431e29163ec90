import type { Problem } from './problem.ts';
import type { Column } from './row-block.ts';

/** A column of numeric that Parquet writes as DECIMAL(precision, scale), whatever limits PostgreSQL has for it. */
export interface DecimalColumn {
  readonly name: string;
  readonly precision: number;
  readonly scale: number;
}

/** Whole numbers of so many digits are exact as JavaScript's numbers. */
export const exactDigits = 15;

export const maxDecimalDigits = 38;

const entryForm = /^(.+) decimal\((\d{1,3}),(\d{1,3})\)$/s;

/** Reads `amount decimal(18,4)`; undefined if it is not written so. The digits may be too many. */
function parseEntry(entry: unknown): DecimalColumn | undefined {
  const parts = typeof entry === 'string' ? entryForm.exec(entry) : null;
  if (!parts) return undefined;
  const [, name = '', precision, scale] = parts;
  return { name, precision: Number(precision), scale: Number(scale) };
}

export function fitsDecimal({ precision, scale }: Omit<DecimalColumn, 'name'>): boolean {
  return 1 <= precision && 0 <= scale && scale <= precision && precision <= maxDecimalDigits;
}

/** The entries of a config that are right; null if there are none. */
export function readDecimalColumns(entries: unknown): readonly DecimalColumn[] | null {
  const read = (Array.isArray(entries) ? entries : []).map(parseEntry);
  const columns = read.filter((column) => column !== undefined && fitsDecimal(column));
  return columns.length > 0 ? (columns as readonly DecimalColumn[]) : null;
}

/** Describes the faults of the entries of a config by themselves, for its owner. */
export function checkDecimalEntries(entries: unknown, attr: string): readonly Problem[] {
  return describeBadEntries(Array.isArray(entries) ? entries : []).map((detail) => ({
    code: 'invalid_input',
    detail,
    attr,
  }));
}

function describeBadEntries(entries: readonly unknown[]): readonly string[] {
  const names = new Set<string>();
  return entries.flatMap((entry) => {
    const column = parseEntry(entry);
    const shown = JSON.stringify(entry);
    if (!column) return [`${shown}: write it as amount decimal(18,4).`];
    if (!fitsDecimal(column)) {
      return [
        `${shown}: decimal(p,s) needs 1 to ${maxDecimalDigits} digits, and 0 to p of them after the point.`,
      ];
    }
    if (names.has(column.name)) return [`${shown}: the column is named twice. Remove one entry.`];
    names.add(column.name);
    return [];
  });
}

type Typed = Pick<Column, 'name' | 'sourceType'>;

export function isNumeric({ sourceType }: Pick<Column, 'sourceType'>): boolean {
  return /^numeric(\(\d+,-?\d+\))?$/.test(sourceType);
}

/** Which chosen column the rows do not have or have with another type, for the export's owner; null: none. */
export function findDecimalFault(
  chosen: readonly DecimalColumn[] | null,
  columns: readonly Typed[],
): string | null {
  const faults = (chosen ?? []).flatMap(({ name }) => {
    const column = columns.find((each) => each.name === name);
    if (!column) return [`the rows have no column ${name}`];
    return isNumeric(column) ? [] : [`${name} is ${column.sourceType}, not numeric`];
  });
  if (faults.length === 0) return null;
  const possible = columns.filter(isNumeric).map(({ name }) => name);
  const list = possible.length > 0 ? possible.slice(0, 20).join(', ') : 'none';
  return `${faults.join('; ')}. Columns of type numeric: ${list}`;
}
