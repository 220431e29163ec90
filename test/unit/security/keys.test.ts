import { describe, expect, it, test } from 'vitest';
import { canonicalBytes, canonicalizable } from '../../../src/foundation/domain/canonical-json.ts';
import { withReceipt } from '../../../src/foundation/domain/signature.ts';
import {
  hashApiKey,
  isWellFormedApiKey,
  mintApiKey,
  sameHash,
} from '../../../src/foundation/security/api-keys.ts';
import {
  allows,
  isOperatorScope,
  operatorScopes,
  type Scope,
  scopes,
} from '../../../src/foundation/security/scopes.ts';
import {
  isSignedBy,
  makeSigningKey,
  signWith,
} from '../../../src/foundation/security/signing-keys.ts';

test('a key is slc_, 32 base62 digits and 6 of checksum', () => {
  expect(mintApiKey()).toMatch(/^slc_[0-9A-Za-z]{38}$/);
});

test('every minted key is well formed, and no two are alike', () => {
  const keys = Array.from({ length: 500 }, mintApiKey);
  expect(keys.filter(isWellFormedApiKey)).toHaveLength(500);
  expect(new Set(keys).size).toBe(500);
});

test('one wrong digit anywhere is found before the database is asked', () => {
  const key = mintApiKey();
  for (let index = 'slc_'.length; index < key.length; index += 1) {
    const wrong = key[index] === 'a' ? 'b' : 'a';
    const mistyped = key.slice(0, index) + wrong + key.slice(index + 1);
    expect(isWellFormedApiKey(mistyped), mistyped).toBe(false);
  }
});

test.each([
  '',
  'slc_',
  'phx_123',
  `${mintApiKey()}0`,
  mintApiKey().slice(0, -1),
  ` ${mintApiKey()}`,
])('text that is no key is not well formed: %j', (text) => {
  expect(isWellFormedApiKey(text)).toBe(false);
});

test('the digits of keys are drawn evenly', () => {
  const counts = new Map<string, number>();
  const drawn = Array.from({ length: 2_000 }, () => mintApiKey().slice(4, 36)).join('');
  for (const digit of drawn) counts.set(digit, (counts.get(digit) ?? 0) + 1);
  const expected = drawn.length / 62;
  expect(counts.size).toBe(62);
  // Six standard deviations of a fair draw.
  const most = expected + 6 * Math.sqrt(expected);
  expect(Math.max(...counts.values())).toBeLessThan(most);
});

test('only equal keys have equal hashes', () => {
  const key = mintApiKey();
  expect(sameHash(hashApiKey(key), hashApiKey(key))).toBe(true);
  expect(sameHash(hashApiKey(key), hashApiKey(mintApiKey()))).toBe(false);
  expect(sameHash(hashApiKey(key), Buffer.alloc(3))).toBe(false);
});

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

describe('canonical JSON', () => {
  it('sorts members, leaves out what is undefined and escapes as JSON.stringify does', () => {
    const value = { b: [1, { y: null, x: 'é"\n\u2028\ud800' }], a: -0, '1': true, gone: undefined };
    expect(String(canonicalBytes(value))).toBe(
      '{"1":true,"a":0,"b":[1,{"x":"é\\"\\n\u2028\\ud800","y":null}]}',
    );
  });

  it.each([[1.5], [2 ** 53], [Number.NaN], [{ é: 1 }], [[undefined]]])('refuses %o', (value) => {
    expect(() => canonicalBytes(value)).toThrow(TypeError);
  });

  it('takes any JSON as text', () => {
    const value = { a: 1.5, b: { é: 2 ** 53 }, c: [1, undefined] };
    expect(String(canonicalBytes(canonicalizable(value)))).toBe(
      '{"a":"1.5","b":[["é","9007199254740992"]],"c":[1,null]}',
    );
  });
});

describe('a signing key', () => {
  const first = makeSigningKey(null, '2026-01-01T00:00:00.000000Z');
  const next = makeSigningKey(first.key, '2026-01-02T00:00:00.000000Z');
  const isRight = ({ signature, ...entry }: typeof first.entry, by: typeof first.entry) =>
    isSignedBy(by.public_key, canonicalBytes(entry), signature);

  it('signs itself if it is the first, else the key before signs it', () => {
    expect(first.entry.signed_by).toBe(first.key.keyId);
    expect(isRight(first.entry, first.entry)).toBe(true);
    expect(next.entry.signed_by).toBe(first.key.keyId);
    expect(isRight(next.entry, first.entry)).toBe(true);
    expect(isRight(next.entry, next.entry)).toBe(false);
  });

  it('signs equal documents with equal bytes', () => {
    const { receipt } = withReceipt({ b: 1, a: 2 }, signWith(next.key));
    expect(withReceipt({ a: 2, b: 1 }, signWith(next.key)).receipt).toEqual(receipt);
    const bytes = canonicalBytes({ a: 2, b: 1 });
    expect(isSignedBy(next.entry.public_key, bytes, receipt.signature)).toBe(true);
    expect(isSignedBy(next.entry.public_key, canonicalBytes({ a: 2 }), receipt.signature)).toBe(
      false,
    );
  });
});
