import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const root = new URL('../../../', import.meta.url);
const readme = readFileSync(new URL('src/service/scheduling/README.md', root), 'utf8');
const claims = [...readme.matchAll(/Enforced by: (\S+) › (.+)/g)].map(
  ([, file = '', name = '']) => [file, name] as const,
);

test.each(claims)('%s holds the test "%s"', (file, name) => {
  const url = new URL(file, root);
  expect(existsSync(url)).toBe(true);
  expect(readFileSync(url, 'utf8')).toContain(`'${name}'`);
});

test('every property is numbered in order and enforced by a test', () => {
  const properties = readme
    .slice(readme.indexOf('## Properties'))
    .split(/^(?=\d+\. )/m)
    .slice(1);
  expect(properties.map((text) => Number.parseInt(text, 10))).toEqual(
    properties.map((_, index) => index + 1),
  );
  for (const property of properties) expect(property).toContain('Enforced by: ');
});
