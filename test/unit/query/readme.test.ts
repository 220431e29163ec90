import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import {
  binaryOperators,
  castTypes,
  forms,
  functions,
} from '../../../src/rows/query/allow-list.ts';

test.each([
  ['Forms', forms],
  ['Operators', binaryOperators],
  ['Types to cast to', castTypes.keys()],
  ['Functions', functions.keys()],
])('the README lists the allowed: %s', async (title, allowed) => {
  const readme = await readFile(
    new URL('../../../src/rows/query/README.md', import.meta.url),
    'utf8',
  );
  const line = readme.split('\n').find((text) => text.startsWith(`- ${title}`));
  const listed = [...(line ?? '').matchAll(/`([^`]+)`/g)].map(([, name]) => name);
  expect(listed).toEqual([...allowed]);
});
