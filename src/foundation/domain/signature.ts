import { canonicalBytes } from './canonical-json.ts';

/** The signature in a manifest or a statement, as docs/receipts.md describes it. */
export interface Signature {
  readonly key_id: string;
  readonly algorithm: 'Ed25519';
  /** Hexadecimal. */
  readonly signature: string;
}

export type Sign = (bytes: Uint8Array) => Signature;

/** Adds the signature of the canonical bytes of all the rest. */
export function withReceipt<T extends object>(
  document: T,
  sign: Sign,
): T & { readonly receipt: Signature } {
  return { ...document, receipt: sign(canonicalBytes(document)) };
}

/** A key as everyone may see it. */
export interface PublicKeyEntry {
  readonly key_id: string;
  readonly algorithm: 'Ed25519';
  /** The 32 bytes, hexadecimal. */
  readonly public_key: string;
  readonly created_at: string;
  readonly signed_by: string;
  readonly signature: string;
}
