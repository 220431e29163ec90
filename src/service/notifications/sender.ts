import type {
  Notification,
  NotificationOrder,
  NotificationOutcome,
  NotificationSender,
  WebhookFormat,
} from '../../foundation/domain/notification.ts';
import { allowsEndpoint, type OutboundFilter } from '../../foundation/security/outbound-filter.ts';
import { discordBody, pagerDutyBody, takeRoutingKey, teamsBody } from './chat-bodies.ts';
import { mailAnswerOf, type MailServer, openMailer } from './mail.ts';
import { emailText, jsonBody, slackBody } from './payload.ts';
import { answerOf, post } from './post.ts';
import { createHmac } from 'node:crypto';

export interface SenderOptions {
  readonly agents: OutboundFilter;
  readonly allowedPrivateEndpoints: readonly string[];
  /** Null: this installation sends no e-mail. */
  readonly mailServer: MailServer | null;
  readonly publicUrl: string | null;
  /** Addresses and domains that may get mail, in lower case. */
  readonly mailRecipients: readonly string[];
  /** For a whole attempt. */
  readonly timeoutMs: number;
}

/** PagerDuty gets the key of its service in the body. */
function urlOf({ url, format }: { readonly url: string; readonly format: WebhookFormat }) {
  const given = new URL(url);
  return format === 'pagerduty' ? takeRoutingKey(given) : { url: given, routingKey: null };
}

type Body = (notification: Notification, publicUrl: string | null, routingKey: string) => string;

const bodies: Readonly<Record<WebhookFormat, Body>> = {
  json: jsonBody,
  slack: slackBody,
  teams: teamsBody,
  discord: discordBody,
  pagerduty: pagerDutyBody,
};

/** Sends webhooks through the filter for tenants' endpoints, and e-mail through the operator's server. */
export function createSender(options: SenderOptions): NotificationSender {
  const { agents, allowedPrivateEndpoints, mailServer, publicUrl, timeoutMs } = options;
  const listed = new Set(options.mailRecipients);
  const mail = mailServer === null ? null : openMailer(mailServer, timeoutMs);

  async function attempt({ notification, address, signedAt }: NotificationOrder) {
    const { eventId, organizationId } = notification;
    if (address.kind === 'webhook') {
      const { url, routingKey } = urlOf(address);
      const body = bodies[address.format](notification, publicUrl, routingKey ?? '');
      const signed = { id: eventId, timestamp: signedAt, body };
      const headers = signatureHeaders(signed, address.secrets);
      const status = await post(agents, { url, body, headers, tenant: organizationId }, timeoutMs);
      return { delivered: status >= 200 && status < 300, answer: `HTTP ${status}` };
    }
    if (mail === null) return { delivered: false, answer: 'no_mail_server' };
    const to = address.recipients;
    const { refused } = await mail({ to, eventId, ...emailText(notification, publicUrl) });
    const answer = refused === 0 ? 'SMTP 250' : `SMTP 250, ${refused} of ${to.length} refused`;
    return { delivered: true, answer };
  }

  return {
    canEmail: mail !== null,
    mayMail(address) {
      const lowerCase = address.toLowerCase();
      return listed.has(lowerCase) || listed.has(lowerCase.slice(lowerCase.lastIndexOf('@') + 1));
    },
    allowsPlainHttp: (url) => allowsEndpoint(allowedPrivateEndpoints, url),
    refusalOf: agents.refusalOf,
    async send(order): Promise<NotificationOutcome> {
      const startedAt = performance.now();
      const failed = (error: unknown) => {
        const isEmail = order.address.kind === 'email';
        return { delivered: false, answer: isEmail ? mailAnswerOf(error) : answerOf(error) };
      };
      const outcome = await attempt(order).catch(failed);
      return { ...outcome, latencyMs: Math.round(performance.now() - startedAt) };
    },
  };
}

interface Signed {
  readonly id: string;
  readonly timestamp: number;
  readonly body: string;
}

/** Standard Webhooks 1.0: `v1,` and the base64 of HMAC-SHA256 of `id.timestamp.body`. @param secrets `whsec_` and base64 */
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
