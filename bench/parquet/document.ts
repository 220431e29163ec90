import { readFile, writeFile } from 'node:fs/promises';

const begin = '<!-- bench:parquet -->';
const end = '<!-- /bench:parquet -->';

/** Puts the table between its marks in docs/benchmarks.md. Throws Error if the marks are missing. */
export async function replaceTable(table: string): Promise<void> {
  const file = 'docs/benchmarks.md';
  const text = await readFile(file, 'utf8');
  const [before, rest] = text.split(begin);
  const after = rest?.split(end)[1];
  if (after === undefined) throw new Error(`${file} lacks ${begin} and ${end}`);
  await writeFile(file, `${before}${begin}\n${table}\n${end}${after}`);
}
