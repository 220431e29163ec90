import { expect, test } from 'vitest';
import { allows, isGrantableScope, type Scope } from '../../../src/foundation/security/scopes.ts';

test.each<[string[], Scope, boolean]>([
  [['batch_export:read'], 'batch_export:read', true],
  [['batch_export:read'], 'batch_export:write', false],
  [['batch_export:write'], 'batch_export:read', true],
  [['batch_export:write'], 'plugin:read', false],
  [['plugin:read', 'batch_export:write'], 'plugin:write', false],
  [['*'], 'plugin:write', true],
  [[], 'plugin:read', false],
])('a key of %j that needs %s: %s', (granted, needed, allowed) => {
  expect(allows(granted, needed)).toBe(allowed);
});

test('only known scopes and * can be granted', () => {
  expect(isGrantableScope('plugin:write')).toBe(true);
  expect(isGrantableScope('*')).toBe(true);
  expect(isGrantableScope('plugin:*')).toBe(false);
  expect(isGrantableScope('constructor')).toBe(false);
});
