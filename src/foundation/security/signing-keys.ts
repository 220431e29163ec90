import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign as signBytes,
  verify as verifyBytes,
} from 'node:crypto';
import { canonicalBytes } from '../domain/canonical-json.ts';
import type { PublicKeyEntry, Sign } from '../domain/signature.ts';

/** A key that can sign. The seed is its private part, hexadecimal. */
export interface SigningKey {
  readonly keyId: string;
  readonly seed: string;
}

/** The bytes before the 32 bytes in the usual encodings of an Ed25519 key (RFC 8410). */
const privateHead = '302e020100300506032b657004220420';
const publicHead = '302a300506032b6570032100';

const privateOf = (seed: string): KeyObject =>
  createPrivateKey({ key: Buffer.from(privateHead + seed, 'hex'), format: 'der', type: 'pkcs8' });

const idOf = (publicKey: string): string =>
  createHash('sha256').update(Buffer.from(publicKey, 'hex')).digest('hex').slice(0, 16);

export function signWith({ keyId, seed }: SigningKey): Sign {
  const key = privateOf(seed);
  return (bytes) => ({
    key_id: keyId,
    algorithm: 'Ed25519',
    signature: signBytes(null, bytes, key).toString('hex'),
  });
}

export function isSignedBy(publicKey: string, bytes: Uint8Array, signature: string): boolean {
  const der = Buffer.from(publicHead + publicKey, 'hex');
  const key = createPublicKey({ key: der, format: 'der', type: 'spki' });
  return verifyBytes(null, bytes, key, Buffer.from(signature, 'hex'));
}

/** @param before signs the entry of the new key; null: the new key signs itself */
export function makeSigningKey(
  before: SigningKey | null,
  createdAt: string,
): { readonly entry: PublicKeyEntry; readonly key: SigningKey } {
  const der = generateKeyPairSync('ed25519').privateKey.export({ format: 'der', type: 'pkcs8' });
  const seed = der.subarray(-32).toString('hex');
  const spki = createPublicKey(privateOf(seed)).export({ format: 'der', type: 'spki' });
  const publicKey = spki.subarray(-32).toString('hex');
  const key = { keyId: idOf(publicKey), seed };
  const facts = {
    key_id: key.keyId,
    algorithm: 'Ed25519' as const,
    public_key: publicKey,
    created_at: createdAt,
    signed_by: (before ?? key).keyId,
  };
  const { signature } = signWith(before ?? key)(canonicalBytes(facts));
  return { entry: { ...facts, signature }, key };
}
