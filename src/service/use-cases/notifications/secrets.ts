import { randomBytes } from 'node:crypto';
import type { SecretBox } from '../../../foundation/security/secret-box.ts';

/** The parts of a webhook that are stored encrypted. The URL is, because the URLs of some receivers are their key. */
export interface WebhookSecrets {
  readonly url: string;
  readonly secret: string;
  /** Signed before the last rotation; null if there was none. */
  readonly previousSecret: string | null;
}

const identityOf = (targetId: string): string => `notification-target:${targetId}`;

/** A new signing secret in the form of Standard Webhooks: 32 random bytes. */
export const mintSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`;

export function sealWebhook(box: SecretBox, targetId: string, webhook: WebhookSecrets): Buffer {
  return box.seal({ ...webhook }, identityOf(targetId));
}

/** @throws SluiceError `secrets.undecryptable` */
export function openWebhook(box: SecretBox, targetId: string, sealed: Buffer): WebhookSecrets {
  const { url, secret, previousSecret } = box.open(sealed, identityOf(targetId));
  return {
    url: String(url),
    secret: String(secret),
    previousSecret: typeof previousSecret === 'string' ? previousSecret : null,
  };
}
