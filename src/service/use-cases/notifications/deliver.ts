import { SluiceError } from '../../../foundation/domain/errors.ts';
import {
  type NotificationAddress,
  type NotificationOutcome,
  type NotificationSender,
  retryDelayMs,
} from '../../../foundation/domain/notification.ts';
import { orNotFound } from '../../../foundation/domain/problem.ts';
import {
  type ClaimedDelivery,
  insertTest,
  recordAttempt,
} from '../../../state/store/notifications/notification-deliveries.ts';
import {
  cancelDeliveriesOf,
  type NotificationTarget,
} from '../../../state/store/notifications/notification-targets.ts';
import type { Context } from '../context.ts';
import { openWebhook } from './targets.ts';

/** The time that a delivery belongs to the process that claimed it. An attempt takes a third of it at most. */
export const deliveryLeaseMs = 60_000;
/** Days without a delivery that succeeded after which a target is disabled. */
export const disableAfterDays = 5;

type Deliverer = Pick<Context, 'db' | 'secrets'>;

/**
 * Sends a claimed delivery and records how it ended. A process that was frozen since the claim sends nothing,
 * and what it records has no effect if another one took the delivery.
 *
 * @param claimedAtMs by `performance.now()`, before the claim
 * @param random in [0, 1), for the jitter of the backoff
 * @returns null if it was not sent
 */
export async function deliver(
  { db, secrets }: Deliverer,
  sender: NotificationSender,
  claimed: ClaimedDelivery,
  claimedAtMs: number,
  random: number,
): Promise<NotificationOutcome | null> {
  const address = addressOf(secrets, sender, claimed);
  if (performance.now() - claimedAtMs > deliveryLeaseMs / 2) return null;
  const { notification, claimedAt: signedAt, attempts } = claimed;
  const outcome =
    typeof address === 'string'
      ? { delivered: false, answer: address, latencyMs: 0 }
      : await sender.send({ notification, address, signedAt });
  const retryMs = notification.type === 'test' ? null : retryDelayMs(attempts, random);
  const ended = await recordAttempt(db, claimed, { ...outcome, retryMs }, disableAfterDays);
  if (ended.isDisabled) await cancelDeliveriesOf(db, claimed.targetId);
  return outcome;
}

/** @returns a word for the log if there is no address to send to */
function addressOf(
  secrets: Context['secrets'],
  { mayMail }: NotificationSender,
  { kind, targetId, format, recipients, secrets: sealed, usesPreviousSecret }: ClaimedDelivery,
): NotificationAddress | 'recipients_not_listed' | 'secret_undecryptable' {
  if (kind === 'email') {
    const listed = recipients.filter(mayMail);
    return listed.length === 0 ? 'recipients_not_listed' : { kind, recipients: listed };
  }
  try {
    const opened = openWebhook(secrets, targetId, sealed ?? Buffer.alloc(0));
    const { url, secret, previousSecret } = opened;
    const previous = usesPreviousSecret && previousSecret !== null ? [previousSecret] : [];
    return { kind, url, format, secrets: [secret, ...previous] };
  } catch (error) {
    if (error instanceof SluiceError) return 'secret_undecryptable';
    throw error;
  }
}

/** Sends a test to a target at once, even if it is disabled. It is in the log, and not retried. */
export async function testTarget(
  context: Deliverer,
  sender: NotificationSender,
  { id }: NotificationTarget,
): Promise<NotificationOutcome> {
  const claimedAtMs = performance.now();
  const claimed = await insertTest(context.db, id, deliveryLeaseMs);
  return orNotFound(claimed && (await deliver(context, sender, claimed, claimedAtMs, 0)));
}
