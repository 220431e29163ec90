import { createHmac } from 'node:crypto';

/** What a signature covers. */
export interface Signed {
  readonly id: string;
  /** Seconds since the epoch. */
  readonly timestamp: number;
  readonly body: string;
}

/**
 * The headers by which a receiver proves who sent a request, as Standard Webhooks 1.0 describes them: for
 * each secret `v1,` and the base64 of HMAC-SHA256 of `id.timestamp.body`.
 *
 * @param secrets `whsec_` and base64
 */
export function signatureHeaders(
  { id, timestamp, body }: Signed,
  secrets: readonly string[],
): Record<string, string> {
  const sign = (secret: string) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
    return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
  };
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': secrets.map(sign).join(' '),
  };
}
