import { inSnakeCase } from '../../foundation/domain/snake-case.ts';
import type { CliDeps } from './deps.ts';
import { tableLines } from './text.ts';

/** Prints one record, its names in snake_case: as one line of JSON, or as one line per field. */
export function printRecord(deps: CliDeps, json: boolean | undefined, given: object): void {
  const record = inSnakeCase(given);
  if (json) {
    deps.print(JSON.stringify(record));
    return;
  }
  const rows = Object.entries(record).map(([name, value]) => [name, show(value)]);
  for (const line of tableLines(['', ''], rows, uncoloured).slice(1)) deps.print(line);
}

/** Prints records with the same fields: as a JSON array, or as a table. */
export function printRecords(
  deps: CliDeps,
  json: boolean | undefined,
  given: readonly object[],
): void {
  const records: readonly Readonly<Record<string, unknown>>[] = given.map(inSnakeCase);
  const [first] = records;
  if (json || !first) {
    deps.print(json ? JSON.stringify(records) : 'none');
    return;
  }
  const names = Object.keys(first);
  const rows = records.map((record) => names.map((name) => show(record[name])));
  for (const line of tableLines(names, rows, uncoloured)) deps.print(line);
}

const uncoloured = (text: string) => text;

function show(value: unknown): string {
  if (value === null || value === undefined) return '-';
  return Array.isArray(value) ? value.join(',') : String(value);
}
