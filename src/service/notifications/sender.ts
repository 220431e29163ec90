import { randomUUID } from 'node:crypto';
import type {
  Notification,
  NotificationOrder,
  NotificationOutcome,
  NotificationSender,
  WebhookFormat,
} from '../../foundation/domain/notification.ts';
import { allowsEndpoint, type OutboundAgents } from '../../foundation/security/outbound-filter.ts';
import { discordBody, pagerDutyBody, takeRoutingKey, teamsBody } from './chat-bodies.ts';
import { type MailServer, mailAnswerOf, openMailer, gotNoRecipient } from './mail.ts';
import { confirmationText, emailText, jsonBody, slackBody } from './payload.ts';
import { answerOf, post } from './post.ts';
import { signatureHeaders } from './signature.ts';

export interface SenderOptions {
  readonly agents: OutboundAgents;
  readonly allowedPrivateEndpoints: readonly string[];
  /** Null: this installation sends no e-mail. */
  readonly mailServer: MailServer | null;
  /** Address of the page, for links; null: unknown. */
  readonly publicUrl: string | null;
  readonly emailsPerHour: number;
  /** Domains whose addresses need no confirmation, in lower case. */
  readonly trustedDomains: readonly string[];
  /** For a whole attempt. */
  readonly timeoutMs: number;
}

/** PagerDuty gets the key of its service in the body. */
function urlOf({ url, format }: { readonly url: string; readonly format: WebhookFormat }) {
  const given = new URL(url);
  return format === 'pagerduty' ? takeRoutingKey(given) : { url: given, routingKey: null };
}

function bodyOf(
  notification: Notification,
  format: WebhookFormat,
  publicUrl: string | null,
  routingKey: string | null,
): string {
  switch (format) {
    case 'json':
      return jsonBody(notification, publicUrl);
    case 'slack':
      return slackBody(notification, publicUrl);
    case 'teams':
      return teamsBody(notification, publicUrl);
    case 'discord':
      return discordBody(notification, publicUrl);
    case 'pagerduty':
      return pagerDutyBody(notification, publicUrl, routingKey ?? '');
  }
}

/** Sends webhooks through the filter for tenants' endpoints, and e-mail through the operator's server. */
export function createSender(options: SenderOptions): NotificationSender {
  const { agents, allowedPrivateEndpoints, mailServer, publicUrl, emailsPerHour, timeoutMs } =
    options;
  const trusted = new Set(options.trustedDomains);
  const mail = mailServer === null ? null : openMailer(mailServer, timeoutMs);

  async function attempt({ notification, address, signedAt }: NotificationOrder) {
    const { eventId, organizationId } = notification;
    if (address.kind === 'webhook') {
      const { url, routingKey } = urlOf(address);
      const body = bodyOf(notification, address.format, publicUrl, routingKey);
      const signed = { id: eventId, timestamp: signedAt, body };
      const headers = signatureHeaders(signed, address.secrets);
      const status = await post(agents, { url, body, headers, tenant: organizationId }, timeoutMs);
      return { delivered: status >= 200 && status < 300, answer: `HTTP ${status}` };
    }
    if (mail === null) {
      return { delivered: false, answer: 'no_mail_server', gotNoRecipient: true };
    }
    const to = address.recipients;
    const { refused } = await mail({ to, eventId, ...emailText(notification, publicUrl) });
    const answer = refused === 0 ? 'SMTP 250' : `SMTP 250, ${refused} of ${to.length} refused`;
    return { delivered: true, answer };
  }

  return {
    canEmail: mail !== null,
    canConfirm: mail !== null && publicUrl !== null,
    emailsPerHour,
    trusts: (address) => trusted.has(address.slice(address.lastIndexOf('@') + 1).toLowerCase()),
    async askToConfirm(address, token) {
      if (mail === null || publicUrl === null) return false;
      const text = confirmationText(publicUrl, token);
      return mail({ to: [address], eventId: randomUUID(), ...text }).then(
        ({ refused }) => refused === 0,
        () => false,
      );
    },
    allowsPlainHttp: (url) => allowsEndpoint(allowedPrivateEndpoints, url),
    async send(order): Promise<NotificationOutcome> {
      const startedAt = performance.now();
      const failed = (error: unknown) => {
        const isEmail = order.address.kind === 'email';
        const answer = isEmail ? mailAnswerOf(error) : answerOf(error);
        return { delivered: false, answer, gotNoRecipient: isEmail && gotNoRecipient(error) };
      };
      const outcome = await attempt(order).catch(failed);
      return { ...outcome, latencyMs: Math.round(performance.now() - startedAt) };
    },
  };
}
