import { expect, test } from 'vitest';
import { fileDefinition } from '../../../src/rows/destinations/file/definition.ts';

const enclose = (directory: unknown) => fileDefinition.enclose?.({ directory }, 7)?.directory;

test.each([
  ['a', '7/a'],
  ['8/a', '7/8/a'],
  ['77/a', '7/77/a'],
  ['07/a', '7/07/a'],
  ['7', '7'],
  ['7/a', '7/a'],
  ['../8', '7/../8'],
  ['/8', '7//8'],
  // The check of the config refuses these.
  ['', ''],
  [8, 8],
])('directory %j of project 7 becomes %j', (directory, enclosed) => {
  expect(enclose(directory)).toBe(enclosed);
});
