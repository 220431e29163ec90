import { createHash, createHmac, timingSafeEqual } from 'node:crypto';

/** Signature Version 4 as arithmetic: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html */

export const sha256Hex = (data: string | Buffer): string =>
  createHash('sha256').update(data).digest('hex');

const hmac = (key: string | Buffer, data: string): Buffer =>
  createHmac('sha256', key).update(data).digest();

/** RFC 3986: everything but unreserved characters, upper-case hex. */
function uriEncode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

const byCodeUnit = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

export interface CanonicalParts {
  method: string;
  /** Decoded path. S3 encodes it once and does not normalise it. */
  path: string;
  query: readonly [string, string][];
  headers: Record<string, string>;
  signedHeaders: readonly string[];
  payloadHash: string;
}

export function canonicalRequest(parts: CanonicalParts): string {
  const query = parts.query
    .map(([name, value]): [string, string] => [uriEncode(name), uriEncode(value)])
    .sort(([a, x], [b, y]) => byCodeUnit(a, b) || byCodeUnit(x, y))
    .map(([name, value]) => `${name}=${value}`)
    .join('&');
  const headers = parts.signedHeaders.map(
    (name) => `${name}:${(parts.headers[name] ?? '').trim().replace(/ +/g, ' ')}\n`,
  );
  return [
    parts.method,
    parts.path.split('/').map(uriEncode).join('/'),
    query,
    headers.join(''),
    parts.signedHeaders.join(';'),
    parts.payloadHash,
  ].join('\n');
}

/** `date/region/service/aws4_request` */
export interface Scope {
  date: string;
  region: string;
  service: string;
}

export const scopeText = ({ date, region, service }: Scope): string =>
  `${date}/${region}/${service}/aws4_request`;

export function stringToSign(amzDate: string, scope: Scope, canonical: string): string {
  return ['AWS4-HMAC-SHA256', amzDate, scopeText(scope), sha256Hex(canonical)].join('\n');
}

export function signingKey(secret: string, scope: Scope): Buffer {
  const dated = hmac(`AWS4${secret}`, scope.date);
  return hmac(hmac(hmac(dated, scope.region), scope.service), 'aws4_request');
}

export const sign = (key: Buffer, text: string): string => hmac(key, text).toString('hex');

export function sameSignature(expected: string, given: string): boolean {
  const a = Buffer.from(expected);
  const b = Buffer.from(given);
  return a.length === b.length && timingSafeEqual(a, b);
}

/** `20130524T000000Z` to milliseconds since the epoch; null if it is not of that form. */
export function parseAmzDate(text: string): number | null {
  const match = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(text);
  if (!match) return null;
  const [year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0] = match
    .slice(1)
    .map(Number);
  return Date.UTC(year, month - 1, day, hour, minute, second);
}
