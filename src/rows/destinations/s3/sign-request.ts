import { createHash, createHmac } from 'node:crypto';
import { toTimestamp } from '../../../foundation/domain/time.ts';

/** Keys of a store, own or issued for a role. */
export interface AccessKeys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

/** A request without its signature. Names of headers are lower-case. */
export interface UnsignedRequest {
  readonly method: string;
  /** Encoded, as it is sent. */
  readonly path: string;
  /** Sorted and encoded, as it is sent. */
  readonly query: string;
  /** All of them are signed. */
  readonly headers: Readonly<Record<string, string>>;
  /** SHA-256 of the body, or `UNSIGNED-PAYLOAD`. */
  readonly payloadHash: string;
}

/** What a signature is valid for, besides its day. */
export interface SigningScope {
  readonly region: string;
  readonly service: string;
}

/** Of a request without a body. */
export const emptyHash = sha256('');

export function sha256(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

/**
 * Signs requests by Signature Version 4 of AWS, for one scope. The SDK does the same, but in several times
 * the time of the request itself.
 */
export class RequestSigner {
  readonly #scope: SigningScope;
  /** Derived from a secret for a day. */
  #key: { readonly of: string; readonly key: Buffer } | null = null;

  constructor(scope: SigningScope) {
    this.#scope = scope;
  }

  /**
   * @param atMs when the store gets the request, in milliseconds since the epoch
   * @returns all headers of the signed request
   */
  sign(request: UnsignedRequest, keys: AccessKeys, atMs: number): Record<string, string> {
    const time = toTimestamp(Math.floor(atMs)).replace(/[-:]|\.\d+/g, '');
    const day = time.slice(0, 8);
    const { method, path, query, payloadHash } = request;
    const headers: Record<string, string> = {
      ...request.headers,
      'x-amz-content-sha256': payloadHash,
      'x-amz-date': time,
      ...(keys.sessionToken === undefined ? {} : { 'x-amz-security-token': keys.sessionToken }),
    };
    const names = Object.keys(headers).sort();
    const lines = names.map(
      (name) => `${name}:${(headers[name] ?? '').trim().replace(/\s+/g, ' ')}\n`,
    );
    const signed = names.join(';');
    const canonical = `${method}\n${path}\n${query}\n${lines.join('')}\n${signed}\n${payloadHash}`;
    const { region, service } = this.#scope;
    const scope = `${day}/${region}/${service}/aws4_request`;
    const text = `AWS4-HMAC-SHA256\n${time}\n${scope}\n${sha256(canonical)}`;
    const signature = hmac(this.#keyFor(keys.secretAccessKey, day), text).toString('hex');
    headers.authorization = `AWS4-HMAC-SHA256 Credential=${keys.accessKeyId}/${scope}, SignedHeaders=${signed}, Signature=${signature}`;
    return headers;
  }

  #keyFor(secret: string, day: string): Buffer {
    const of = `${day} ${secret}`;
    if (this.#key?.of === of) return this.#key.key;
    const { region, service } = this.#scope;
    const ofRegion = hmac(hmac(`AWS4${secret}`, day), region);
    const key = hmac(hmac(ofRegion, service), 'aws4_request');
    this.#key = { of, key };
    return key;
  }
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
