import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

interface Mutant {
  readonly name: string;
  readonly file: string;
  readonly find: string;
  readonly test: string;
}

const root = path.resolve(import.meta.dirname, '..');
const list = new URL('mutants/mutants.mjs', import.meta.url).href;
const { mutants } = (await import(/* @vite-ignore */ list)) as { mutants: readonly Mutant[] };

test.each(mutants)('the mutant "$name" changes one place of the source', ({ file, find, test }) => {
  const places = readFileSync(path.join(root, file), 'utf8').split(find).length - 1;
  expect(places).toBe(1);
  expect(existsSync(path.join(root, test.split(' ')[0] ?? ''))).toBe(true);
});
