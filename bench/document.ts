import { readFile, writeFile } from 'node:fs/promises';

const file = 'docs/internals/benchmarks.md';

/** Puts a text between a benchmark's marks in docs/internals/benchmarks.md. Throws Error if the marks are missing. */
export async function replaceSection(bench: string, text: string): Promise<void> {
  const [begin, end] = [`<!-- bench:${bench} -->`, `<!-- /bench:${bench} -->`];
  const document = await readFile(file, 'utf8');
  const [before, rest] = document.split(begin);
  const after = rest?.split(end)[1];
  if (after === undefined) throw new Error(`${file} lacks ${begin} and ${end}`);
  await writeFile(file, `${before}${begin}\n${text}\n${end}${after}`);
}
