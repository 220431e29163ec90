import { expect, test } from 'vitest';
import {
  hashApiKey,
  isWellFormedApiKey,
  mintApiKey,
  sameHash,
} from '../../../src/foundation/security/api-keys.ts';

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
