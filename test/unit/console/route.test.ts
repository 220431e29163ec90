import { expect, test } from 'vitest';
import { hrefOf, projectOf, type Route, readRoute } from '../../../src/console/route.ts';

const exportId = 'a b/1';
const routes: Route[] = [
  { page: 'exports' },
  { page: 'new' },
  { page: 'transformations' },
  { page: 'new-step' },
  { page: 'step', stepId: 12 },
  { page: 'edit', exportId },
  { page: 'export', exportId, tab: 'logs' },
  { page: 'run', exportId, runId: 'r' },
];

test.each(routes)('%j has an address, with and without a project', (route) => {
  expect(readRoute(hrefOf(route, '7'))).toEqual(route);
  expect(projectOf(hrefOf(route, '7'))).toBe('7');
  expect(readRoute(hrefOf(route, ''))).toEqual(route);
  expect(projectOf(hrefOf(route, ''))).toBeNull();
});

test.each(['#/0/', '#/07/new', '#/7x/new', '#/12345678901/', '#/exports/7', '', '#'])(
  '%s names no project',
  (hash) => expect(projectOf(hash)).toBeNull(),
);
