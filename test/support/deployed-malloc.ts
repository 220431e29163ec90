import { readFileSync } from 'node:fs';

/** The malloc settings that a deployed worker has, as the Dockerfile sets them; read from the project's root. */
export const deployedMalloc: Readonly<Record<string, string>> = Object.fromEntries(
  [...readFileSync('Dockerfile', 'utf8').matchAll(/\b(MALLOC_\w+)=(\d+)/g)].map(
    ([, name = '', value = '']) => [name, value],
  ),
);
