import { expect, test } from 'vitest';
import {
  hrefOf,
  projectOf,
  queryIn,
  type Route,
  readRoute,
  withQuery,
} from '../../../src/clients/console/route.ts';

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

test('the query of an address is no part of its route', () => {
  const hash = '#/7/exports/a/runs?status=Failed&status=Cancelled&cursor=x%2Fy';
  expect(readRoute(hash)).toEqual({ page: 'export', exportId: 'a', tab: 'runs' });
  expect(projectOf('#/7?search=a')).toBe('7');
  expect(queryIn(hash).getAll('status')).toEqual(['Failed', 'Cancelled']);
  expect(queryIn(hash).get('cursor')).toBe('x/y');
});

test('a change of the query keeps the path and the other parameters', () => {
  const hash = '#/7/?health=failing&from=101';
  expect(withQuery(hash, { health: 'late', from: null })).toBe('#/7/?health=late');
  expect(withQuery(hash, { health: ['late', 'fine'] })).toBe(
    '#/7/?from=101&health=late&health=fine',
  );
  expect(withQuery(hash, { health: '', from: null })).toBe('#/7/');
  expect(hrefOf({ page: 'exports' }, '8', { search: 'a b&c' })).toBe('#/8/?search=a+b%26c');
});
