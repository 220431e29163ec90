import { describe, expect, test } from 'vitest';
import {
  formatBytes,
  formatCell,
  formatCount,
  plural,
} from '../../../src/clients/console/numbers.ts';
import { hrefOf, type Route, readRoute } from '../../../src/clients/console/route.ts';

describe('addresses', () => {
  const routes: readonly Route[] = [
    { page: 'exports' },
    { page: 'new' },
    { page: 'edit', exportId: 'e 1' },
    { page: 'export', exportId: 'e/2', tab: 'logs' },
    { page: 'run', exportId: 'e', runId: 'r' },
    { page: 'transformations' },
    { page: 'new-step' },
    { page: 'step', stepId: 12 },
  ];
  test.each(routes)('$page is read as it was written', (route) => {
    expect(readRoute(hrefOf(route))).toEqual(route);
  });

  test.each([
    ['', { page: 'exports' }],
    ['#/exports', { page: 'exports' }],
    ['#/somewhere/else', { page: 'exports' }],
    ['#/exports/%E0%A4%A', { page: 'exports' }],
    ['#/transformations/0', { page: 'transformations' }],
    ['#/transformations/x', { page: 'transformations' }],
    ['#/exports/e/nonsense', { page: 'export', exportId: 'e', tab: 'runs' }],
  ])('%j leads to a page that there is', (hash, route) => {
    expect(readRoute(hash)).toEqual(route);
  });
});

test.each([
  [0, '0 B'],
  [1_023, '1023 B'],
  [1_536, '1.5 KiB'],
  [209_715_200, '200 MiB'],
  [5_497_558_138_880, '5.0 TiB'],
])('%i bytes read %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

test('numbers are grouped, and what is not known is a dash', () => {
  expect([formatCount(1_234_567), formatCount(null)]).toEqual(['1,234,567', '–']);
  expect([plural(1, 'run'), plural(1_000, 'run')]).toEqual(['1 run', '1,000 runs']);
});

test.each([
  [null, 'null'],
  ['text', 'text'],
  [{ plan: 'pro' }, '{"plan":"pro"}'],
  ['x'.repeat(81), `${'x'.repeat(79)}…`],
])('a value of a row is shown on one line', (value, text) => {
  expect(formatCell(value)).toBe(text);
});
