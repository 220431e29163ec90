import { readFile, writeFile } from 'node:fs/promises';

const file = 'docs/internals/benchmarks.md';

/** Puts a text between a benchmark's marks in docs/internals/benchmarks.md. Throws Error if the marks are missing. */
export async function replaceSection(bench: string, text: string): Promise<void> {
  await changeSection(bench, () => text);
}

/** Replaces the lines between a benchmark's marks that have the same beginning. Throws Error if there are none. */
export async function replaceLines(
  bench: string,
  beginning: string,
  lines: readonly string[],
): Promise<void> {
  await changeSection(bench, (section) => {
    const all = section.split('\n');
    const at = all.findIndex((line) => line.startsWith(beginning));
    if (at < 0) throw new Error(`${file} has no line that begins with ${beginning}`);
    const others = all.slice(at).filter((line) => !line.startsWith(beginning));
    return [...all.slice(0, at), ...lines, ...others].join('\n');
  });
}

/** A line of a Markdown table. */
export function lineOf(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}

async function changeSection(bench: string, change: (text: string) => string): Promise<void> {
  const [begin, end] = [`<!-- bench:${bench} -->\n`, `\n<!-- /bench:${bench} -->`];
  const document = await readFile(file, 'utf8');
  const [before, rest] = document.split(begin);
  const [text, after] = rest?.split(end) ?? [];
  if (text === undefined || after === undefined) throw new Error(`${file} lacks ${begin}${end}`);
  await writeFile(file, [before, begin, change(text), end, after].join(''));
}
