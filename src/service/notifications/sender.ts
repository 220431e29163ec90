import { createHmac } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isErrorCode, SluiceError } from '../../foundation/domain/errors.ts';
import type {
  Notification,
  NotificationOrder,
  NotificationOutcome,
  NotificationSender,
  WebhookFormat,
} from '../../foundation/domain/notification.ts';
import {
  allowsEndpoint,
  type OutboundAgents,
  type OutboundFilter,
} from '../../foundation/security/outbound-filter.ts';
import { discordBody, pagerDutyBody, takeRoutingKey, teamsBody } from './chat-bodies.ts';
import { mailAnswerOf, type MailServer, openMailer } from './mail.ts';
import { emailText, jsonBody, slackBody } from './payload.ts';

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

/** Answers such as 102 Processing before the one that counts. */
const maxInformational = 10;

interface Post {
  readonly url: URL;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
  /** On whose behalf its name is resolved. */
  readonly tenant: string;
}

/** For `timeoutMs` in all; reads no body, follows no redirect. @returns the status @throws Error, which `answerOf` describes */
export function post(
  { httpAgent, httpsAgent }: OutboundAgents,
  { url, body, headers, tenant }: Post,
  timeoutMs: number,
): Promise<number> {
  const secure = url.protocol === 'https:';
  const bytes = Buffer.from(body);
  const options = {
    tenant,
    agent: secure ? httpsAgent : httpAgent,
    method: 'POST',
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? undefined : Number(url.port),
    path: `${url.pathname}${url.search}`,
    headers: {
      'content-type': 'application/json',
      'content-length': String(bytes.length),
      'user-agent': 'Sluice-Notifications/1',
      ...headers,
    },
    maxHeaderSize: 16_384,
  };
  return new Promise((resolve, reject) => {
    const outgoing = (secure ? httpsRequest : httpRequest)(options);
    const overdue = setTimeout(() => {
      outgoing.destroy(Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' }));
    }, timeoutMs);
    outgoing.on('error', reject);
    outgoing.once('close', () => {
      clearTimeout(overdue);
      // Does nothing after an answer or an error.
      reject(Object.assign(new Error('closed without an answer'), { code: 'ECONNRESET' }));
    });
    let informational = 0;
    outgoing.on('information', () => {
      informational += 1;
      // Each costs time, and none ends the wait for the answer.
      if (informational <= maxInformational) return;
      outgoing.destroy(Object.assign(new Error('endless answers'), { code: 'HPE_ENDLESS' }));
    });
    outgoing.once('response', (response) => {
      resolve(response.statusCode ?? 0);
      // Whatever follows is not ours to read; it would hold the connection.
      response.destroy();
    });
    outgoing.end(bytes);
  });
}

/** The word for a failed request that the owner of the target sees, without any address. */
export function answerOf(error: unknown): string {
  if (error instanceof SluiceError && isErrorCode(error.code)) {
    return error.code.replace(/^\w+\./, '');
  }
  const { code = '' } = error as { code?: string };
  if (/^(ETIMEDOUT|ETIMEOUT|ESOCKET_TIMEOUT)$/.test(code)) return 'timeout';
  if (/^(ENOTFOUND|ENODATA|EAI_\w+|ESERVFAIL|EREFUSED|EBADRESP)$/.test(code)) return 'unknown_host';
  if (code === 'ECONNREFUSED') return 'connection_refused';
  if (/^(ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|EPROTO)/.test(code)) {
    return 'tls_error';
  }
  if (/^HPE_/.test(code)) return 'invalid_answer';
  return 'connection_failed';
}
