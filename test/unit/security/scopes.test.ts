import { expect, test } from 'vitest';
import {
  allows,
  isOperatorScope,
  operatorScopes,
  type Scope,
  scopes,
} from '../../../src/foundation/security/scopes.ts';

test.each<[string[], Scope, boolean]>([
  [['batch_export:read'], 'batch_export:read', true],
  [['batch_export:read'], 'batch_export:write', false],
  [['batch_export:write'], 'batch_export:read', true],
  [['batch_export:write'], 'plugin:read', false],
  [['plugin:read', 'batch_export:write'], 'plugin:write', false],
  [['*'], 'plugin:write', true],
  [[], 'plugin:read', false],
  [['batch_export:write', 'plugin:write'], 'file:read', false],
  [['file:read'], 'batch_export:read', false],
])('a key of %j that needs %s: %s', (granted, needed, allowed) => {
  expect(allows(granted, needed)).toBe(allowed);
});

test('the scopes of an operator are of no organization', () => {
  expect(scopes.some(isOperatorScope)).toBe(false);
  expect(operatorScopes.every(isOperatorScope)).toBe(true);
  expect(allows(['operator:write'], 'operator:read')).toBe(true);
  expect(allows(['operator:read'], 'operator:write')).toBe(false);
});
