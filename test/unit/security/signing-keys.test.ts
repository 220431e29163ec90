import { describe, expect, it } from 'vitest';
import { canonicalBytes, canonicalizable } from '../../../src/foundation/domain/canonical-json.ts';
import { withReceipt } from '../../../src/foundation/domain/signature.ts';
import {
  isSignedBy,
  makeSigningKey,
  signWith,
} from '../../../src/foundation/security/signing-keys.ts';

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
