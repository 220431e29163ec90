import { expect, test } from 'vitest';
import { hashInto, KeyDigest } from '../../../src/rows/sources/postgres/key-digest.ts';

function hash(text: string): string {
  const state = new Int32Array(4);
  const bytes = Buffer.from(text);
  hashInto(state, bytes, 0, bytes.length);
  return [...state].map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

// As published for MurmurHash3 x86_128 with seed 0.
test.each([
  ['', '00000000000000000000000000000000'],
  ['The quick brown fox jumps over the lazy dog', '2f1583c3ecee2c675d7bf66ce5e91d2c'],
])('the hash of %j', (text, expected) => {
  expect(hash(text)).toBe(expected);
});

test('each length has a hash of its own, and each byte counts', () => {
  const seen = new Set<string>();
  for (let length = 0; length <= 40; length += 1) {
    const text = 'x'.repeat(length);
    seen.add(hash(text));
    for (let at = 0; at < length; at += 1) {
      seen.add(hash(`${text.slice(0, at)}y${text.slice(at + 1)}`));
    }
  }
  expect(seen.size).toBe(41 + (40 * 41) / 2);
});

/** The digest of keys, each a list of fields. */
function digestOf(keys: readonly (readonly (string | null)[])[]): string {
  const width = keys[0]?.length ?? 0;
  const fields = keys.flat();
  const bytes = Buffer.from(fields.map((field) => field ?? '').join(''));
  const lengths = Int32Array.from(fields, (field) => (field === null ? -1 : field.length));
  const offsets = new Int32Array(fields.length);
  for (let index = 1; index < fields.length; index += 1) {
    offsets[index] = (offsets[index - 1] ?? 0) + Math.max(lengths[index - 1] ?? 0, 0);
  }
  const digest = new KeyDigest();
  const places = Array.from({ length: width }, (_, field) => ({ offsets, lengths, width, field }));
  digest.add(bytes, keys.length, places);
  return digest.read();
}

test('a digest is that of a set: the order does not count, how often a key is there does', () => {
  const keys = Array.from({ length: 1_000 }, (_, n) => [`key ${n}`]);
  expect(digestOf(keys.toReversed())).toBe(digestOf(keys));
  expect(digestOf(keys.slice(1))).not.toBe(digestOf(keys));
  expect(digestOf([...keys.slice(1), ['other']])).not.toBe(digestOf(keys));
  expect(digestOf([...keys, ...keys.slice(0, 1)])).not.toBe(digestOf(keys));
});

test.each([0, 1, 3, 4, 5, 7, 8, 9, 16, 20])('a key of %i bytes counts by their hash', (length) => {
  const keys = ['\x81\x02\xf3 key of so many bytes', '\xff'.repeat(40), '0123456789'.repeat(4)].map(
    (text) => Buffer.from(text, 'latin1').subarray(0, length),
  );
  for (const key of keys) {
    const digest = new KeyDigest();
    const field = { offsets: Int32Array.of(9, 3), lengths: Int32Array.of(2, length) };
    digest.add(Buffer.concat([Buffer.alloc(3), key]), 1, [{ ...field, width: 2, field: 1 }]);
    const state = new Int32Array(4);
    hashInto(state, key, 0, length);
    const words = [...state].map((word) => (word >>> 0).toString(16).padStart(8, '0'));
    expect(digest.read()).toBe(`m3:${words.toReversed().join('')}`);
  }
});

test('fields are apart from each other, and null from empty', () => {
  const digests = [
    ['ab', 'c'],
    ['a', 'bc'],
    ['', 'abc'],
    [null, 'abc'],
    ['abc', ''],
    ['abc', null],
  ].map((key) => digestOf([key]));
  expect(new Set(digests).size).toBe(6);
});

test('a digest in parts is that of the whole', () => {
  const bytes = Buffer.from('0123456789abcdef'.repeat(4));
  const lengths = Int32Array.from([16, 16, 16, 16]);
  const at = (...offsets: number[]) => ({ offsets: Int32Array.from(offsets), lengths, width: 1 });
  const whole = new KeyDigest();
  whole.add(bytes, 4, [{ ...at(0, 1, 2, 3), field: 0 }]);
  const parts = new KeyDigest();
  parts.add(bytes, 2, [{ ...at(3, 0), field: 0 }]);
  parts.add(bytes, 2, [{ ...at(2, 1), field: 0 }]);
  expect(parts.read()).toBe(whole.read());
  expect(parts.count).toBe(4);
  expect(whole.read()).toMatch(/^m3:[0-9a-f]{32}$/);
});
