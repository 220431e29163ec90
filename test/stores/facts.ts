import { readFileSync } from 'node:fs';
import type { Subject } from '../conformance/s3-protocol-subject.ts';
import type { Facts } from './facts/asking.ts';
import { conditionFacts } from './facts/conditions.ts';
import { multipartFacts } from './facts/multipart.ts';
import { objectFacts } from './facts/objects.ts';

const facts: Facts = { ...conditionFacts, ...multipartFacts, ...objectFacts };

/** Asks each question once. One that cannot be asked says why, and the others go on. */
export async function measureFacts(subject: Subject): Promise<ReadonlyMap<string, string>> {
  const measured = new Map<string, string>();
  for (const [question, ask] of Object.entries(facts)) {
    const answer = await ask(subject).catch((error: Error) => `not answered: ${error.message}`);
    measured.set(question, answer);
  }
  return measured;
}

export function formatTable(title: string, measured: ReadonlyMap<string, string>): string {
  const rows = [...measured].map(([question, answer]) => `| ${question} | ${answer} |`);
  return [`| | ${title} |`, '| --- | --- |', ...rows].join('\n');
}

/** What the README of the destination says of a store. @param column its heading there */
export function readDocumentedFacts(column: string): ReadonlyMap<string, string> {
  const readme = new URL('../../src/rows/destinations/s3/README.md', import.meta.url);
  const table = readFileSync(readme, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  const index = table[0]?.indexOf(column) ?? -1;
  if (index < 1) throw new Error(`The README has no column ${column}.`);
  return new Map(table.slice(2).map((cells) => [cells[0] ?? '', cells[index] ?? '']));
}
