import { inSnakeCase } from '../../foundation/domain/snake-case.ts';
import type { CliDeps } from './deps.ts';

/** Prints one record, its names in snake_case: as one line of JSON, or as one line per field. */
export function printRecord(deps: CliDeps, json: boolean | undefined, given: object): void {
  const record = inSnakeCase(given);
  if (json) {
    deps.print(JSON.stringify(record));
    return;
  }
  const width = Math.max(...Object.keys(record).map((name) => name.length));
  for (const [name, value] of Object.entries(record)) {
    deps.print(`${name.padEnd(width)}  ${show(value)}`);
  }
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
  const rows = [names, ...records.map((record) => names.map((name) => show(record[name])))];
  const widths = names.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  for (const row of rows) {
    deps.print(
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    );
  }
}

function show(value: unknown): string {
  if (value === null || value === undefined) return '-';
  return Array.isArray(value) ? value.join(',') : String(value);
}
