import type { Config } from '../foundation/config/config.ts';
import type { NotificationSender } from '../foundation/domain/notification.ts';
import { createSender } from '../service/notifications/sender.ts';
import { createOutboundAgents } from '../foundation/security/outbound-filter.ts';
import { StartError } from './wait-for-database.ts';

/** For one attempt in all; a third of the lease of a delivery at most. */
const attemptTimeoutMs = 15_000;

/**
 * What this installation sends notifications by.
 *
 * @throws StartError if SMTP_URL is set without MAIL_FROM
 */
export function openNotifications(
  config: Pick<
    Config,
    | 'ALLOWED_PRIVATE_ENDPOINTS'
    | 'PUBLIC_URL'
    | 'SMTP_URL'
    | 'MAIL_FROM'
    | 'MAX_EMAILS_PER_HOUR'
    | 'MAIL_TRUSTED_DOMAINS'
  >,
  timeoutMs = attemptTimeoutMs,
): NotificationSender {
  const { ALLOWED_PRIVATE_ENDPOINTS: allowedPrivateEndpoints, SMTP_URL, MAIL_FROM } = config;
  if (SMTP_URL !== null && MAIL_FROM === null) {
    throw new StartError('SMTP_URL needs MAIL_FROM. Set MAIL_FROM to the address of the sender.');
  }
  return createSender({
    agents: createOutboundAgents(allowedPrivateEndpoints),
    allowedPrivateEndpoints,
    mailServer: SMTP_URL !== null && MAIL_FROM !== null ? { url: SMTP_URL, from: MAIL_FROM } : null,
    publicUrl: config.PUBLIC_URL,
    emailsPerHour: config.MAX_EMAILS_PER_HOUR,
    trustedDomains: config.MAIL_TRUSTED_DOMAINS.map((domain) => domain.toLowerCase()),
    timeoutMs,
  });
}
