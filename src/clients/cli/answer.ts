import { type CliDeps, CliError, misused, type Terminal } from './deps.ts';
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

/** @throws CliError if a person says no, or if there is no person to ask and `yes` was not given */
export async function confirm({ ask }: Terminal, question: string, yes: boolean): Promise<void> {
  if (yes) return;
  if (ask === null) throw misused(`${question} Pass --yes: there is no terminal to ask.`);
  const answer = await ask(`${question} [y/N] `);
  if (!/^y(es)?$/i.test(answer.trim())) throw new CliError('Nothing was changed.');
}

export function recordLines(record: object): readonly string[] {
  const rows = Object.entries(record).map(([name, value]) => [name, show(value)]);
  return tableLines(['', ''], rows, uncoloured).slice(1);
}

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
