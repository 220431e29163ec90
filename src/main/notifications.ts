import { isIP } from 'node:net';
import type { Config } from '../foundation/config/config.ts';
import type { NotificationSender } from '../foundation/domain/notification.ts';
import { cutText } from '../foundation/domain/one-line.ts';
import { createSender } from '../service/notifications/sender.ts';
import {
  checkMailServer,
  isCertificateFault,
  type MailServer,
} from '../service/notifications/mail.ts';
import { createOutboundAgents } from '../foundation/security/outbound-filter.ts';
import { isPublicAddress } from '../foundation/security/public-address.ts';
import { type ProxySettings, proxyFor } from '../foundation/security/proxy.ts';
import { NotificationCourier } from '../service/worker/notification-courier.ts';
import { proxiesOf } from './connectors.ts';
import type { Foundation } from './foundation.ts';
import { StartError } from './wait-for-database.ts';

/** For one attempt in all; a third of the lease of a delivery at most. */
const attemptTimeoutMs = 15_000;

const needsSender = 'SMTP_URL needs MAIL_FROM. Set MAIL_FROM to the address of the sender.';

/** @throws StartError if SMTP_URL is set without MAIL_FROM */
export function openNotifications(
  config: Pick<
    Config,
    | 'ALLOWED_PRIVATE_ENDPOINTS'
    | 'PUBLIC_URL'
    | 'SMTP_URL'
    | 'MAIL_FROM'
    | 'MAIL_RECIPIENTS'
    | 'HTTP_PROXY'
    | 'HTTPS_PROXY'
    | 'NO_PROXY'
  >,
  timeoutMs = attemptTimeoutMs,
): NotificationSender {
  const { ALLOWED_PRIVATE_ENDPOINTS: allowedPrivateEndpoints, SMTP_URL, MAIL_FROM } = config;
  if (SMTP_URL !== null && MAIL_FROM === null) {
    throw new StartError(needsSender);
  }
  const proxies = proxiesOf(config);
  return createSender({
    agents: createOutboundAgents(allowedPrivateEndpoints, undefined, undefined, proxies),
    allowedPrivateEndpoints,
    mailServer: mailServerOf(config, proxies),
    publicUrl: config.PUBLIC_URL,
    mailRecipients: config.MAIL_RECIPIENTS.map((each) => each.toLowerCase()),
    timeoutMs,
  });
}

export function openCourier(
  { context, logger, metrics }: Pick<Foundation, 'context' | 'logger' | 'metrics'>,
  sender: NotificationSender,
): NotificationCourier {
  return new NotificationCourier({
    context,
    sender,
    onSent: (kind, { delivered }) =>
      metrics.notifications.inc({ kind, result: delivered ? 'delivered' : 'failed' }),
    onError: (error) => logger.error({ err: error }, 'a notification could not be handled'),
  });
}

const mailPatienceMs = 5_000;

/** Logs in at the mail server. @returns what is wrong and what to do; null if it works, undefined if there is none */
export async function findMailFault(config: Config): Promise<string | null | undefined> {
  if (config.SMTP_URL === null) return undefined;
  const server = mailServerOf(config, proxiesOf(config));
  if (server === null) return needsSender;
  try {
    await checkMailServer(server, mailPatienceMs);
    return null;
  } catch (error) {
    const { message, responseCode } = error as Error & { responseCode?: number };
    const what = responseCode === undefined ? 'unreachable' : 'refused';
    const proxy = server.proxy === null ? '' : ' It is reached through HTTPS_PROXY.';
    const remedy = isCertificateFault(error)
      ? 'Name the file of its authority in NODE_EXTRA_CA_CERTS, or use the name in its certificate.'
      : 'Correct the address, the user or the password, or start the server.';
    return `SMTP_URL: ${what}: ${cutText(message.replace(/\s+/g, ' '), 300)}.${proxy} ${remedy}`;
  }
}

/** A mail server within the network of the installation is reached directly. */
function mailServerOf(
  { SMTP_URL: url, MAIL_FROM: from }: Pick<Config, 'SMTP_URL' | 'MAIL_FROM'>,
  proxies: ProxySettings,
): MailServer | null {
  if (url === null || from === null || !URL.canParse(url)) {
    return url === null || from === null ? null : { url, from, proxy: null };
  }
  const { hostname, port } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, '');
  const isInside = isIP(host) === 0 ? !host.includes('.') : !isPublicAddress(host);
  return { url, from, proxy: isInside ? null : proxyFor(proxies, true, host, Number(port) || 587) };
}
