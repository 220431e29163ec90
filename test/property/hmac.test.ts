import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { hmacOf } from '../../src/rows/transforms/hash-properties/definition.ts';

const text = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 200 }),
  fc.constantFrom(
    '',
    'a'.repeat(64),
    'ä'.repeat(33),
    '€'.repeat(1_365),
    '€'.repeat(1_366),
    '\ud800',
  ),
);

test('the hash of a value is the HMAC-SHA-256 that Node computes, whatever came before it', () => {
  fc.assert(
    fc.property(text, fc.array(text, { minLength: 1 }), (key, values) => {
      const hmac = hmacOf(key);
      for (const value of values) {
        expect(hmac(value)).toBe(createHmac('sha256', key).update(value).digest('hex'));
      }
    }),
  );
});
