import { inSnakeCase } from '../../foundation/domain/snake-case.ts';
import type { CliDeps } from './deps.ts';
import { tableLines } from './text.ts';

/** Prints an answer as one line of JSON, or as lines for people. */
export function print(
  deps: CliDeps,
  { json }: { readonly json?: boolean },
  value: unknown,
  lines: () => readonly string[],
): void {
  if (json) deps.print(JSON.stringify(value));
  else for (const line of lines()) deps.print(line);
}

/** Prints one record, its names in snake_case. */
export function printRecord(deps: CliDeps, json = false, given: object): void {
  const record = inSnakeCase(given);
  print(deps, { json }, record, () => recordLines(record));
}

/** Prints records with the same fields: as a JSON array, or as a table. */
export function printRecords(deps: CliDeps, json = false, given: readonly object[]): void {
  const records = given.map(inSnakeCase);
  print(deps, { json }, records, () => recordsLines(records));
}

/** A line per field. */
export function recordLines(record: object): readonly string[] {
  const rows = Object.entries(record).map(([name, value]) => [name, show(value)]);
  return tableLines(['', ''], rows, uncoloured).slice(1);
}

/** A table of records with the same fields. */
export function recordsLines(records: readonly object[]): readonly string[] {
  const [first] = records;
  if (!first) return ['none'];
  const rows = records.map((record) => Object.values(record).map(show));
  return tableLines(Object.keys(first), rows, uncoloured);
}

const uncoloured = (text: string) => text;

function show(value: unknown): string {
  if (value === null || value === undefined) return '-';
  return Array.isArray(value) ? value.join(',') : String(value);
}
