import { SluiceError } from '../../../foundation/domain/errors.ts';
import {
  type NotificationAddress,
  type NotificationOutcome,
  type NotificationSender,
  retryDelayMs,
} from '../../../foundation/domain/notification.ts';
import { notFound, Refusal, Throttled } from '../../../foundation/domain/problem.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import {
  type ClaimedDelivery,
  type Delivery,
  findDelivery,
  insertTest,
  recordAttempt,
  releaseDelivery,
  repeatDelivery,
} from '../../../state/store/notifications/notification-deliveries.ts';
import {
  cancelDeliveriesOf,
  type NotificationTarget,
} from '../../../state/store/notifications/notification-targets.ts';
import {
  type EmailReservation,
  reserveEmails,
  returnEmails,
} from '../../../state/store/notifications/sent-emails.ts';
import type { Context } from '../context.ts';
import { askRecipients, confirmedRecipients } from './confirm-addresses.ts';
import { openWebhook } from './secrets.ts';

/** How long a delivery belongs to the process that claimed it. An attempt takes a third of it at most. */
export const deliveryLeaseMs = 60_000;

/** Days without a delivery that succeeded after which a target is disabled. */
export const disableAfterDays = 5;

type Deliverer = Pick<Context, 'db' | 'secrets'>;

/**
 * Sends a claimed delivery and records how it ended. A process that was frozen since the claim sends nothing,
 * and what it records has no effect if another one took the delivery. An e-mail that does not fit into the hour of its
 * organization keeps its place in the queue.
 *
 * @param claimedAtMs by `performance.now()`, before the claim
 * @param random in [0, 1), for the jitter of the backoff
 * @returns null if it was not sent
 */
export async function deliver(
  { db, secrets }: Deliverer,
  sender: NotificationSender,
  given: ClaimedDelivery,
  claimedAtMs: number,
  random: number,
): Promise<NotificationOutcome | null> {
  const claimed = await withoutUnconfirmed(db, sender, given);
  if (claimed.kind === 'email' && !(await reserve(db, sender, claimed, true)).granted) {
    await releaseDelivery(db, claimed);
    return null;
  }
  return attempt({ db, secrets }, sender, claimed, claimedAtMs, random);
}

/** The delivery for those recipients that have confirmed. */
async function withoutUnconfirmed(
  db: Sql,
  sender: NotificationSender,
  claimed: ClaimedDelivery,
): Promise<ClaimedDelivery> {
  if (claimed.kind !== 'email') return claimed;
  const { ownerId, recipients: all } = claimed;
  const recipients = await confirmedRecipients(db, sender, ownerId, all);
  return { ...claimed, recipients };
}

/** Counts the e-mails of an attempt, whatever comes of it. */
async function reserve(
  db: Sql,
  sender: NotificationSender,
  claimed: ClaimedDelivery,
  waits: boolean,
): Promise<EmailReservation> {
  const { recipients, ownerId } = claimed;
  if (recipients.length === 0) return { granted: true, waitMs: 0 };
  return reserveEmails(db, ownerId, recipients.length, sender.emailsPerHour, waits);
}

async function attempt(
  { db, secrets }: Deliverer,
  sender: NotificationSender,
  claimed: ClaimedDelivery,
  claimedAtMs: number,
  random: number,
): Promise<NotificationOutcome | null> {
  const isUnconfirmed = claimed.kind === 'email' && claimed.recipients.length === 0;
  const address = isUnconfirmed ? null : addressOf(secrets, claimed);
  if (performance.now() - claimedAtMs > deliveryLeaseMs / 2) return null;
  const { notification, claimedAt: signedAt, attempts } = claimed;
  const outcome = address
    ? await sender.send({ notification, address, signedAt })
    : {
        delivered: false,
        answer: isUnconfirmed ? 'unconfirmed' : 'secret_undecryptable',
        latencyMs: 0,
      };
  if (claimed.kind === 'email' && outcome.gotNoRecipient) {
    await returnEmails(db, claimed.ownerId, claimed.recipients.length);
  }
  const retryMs = notification.type === 'test' ? null : retryDelayMs(attempts, random);
  const ended = await recordAttempt(db, claimed, { ...outcome, retryMs }, disableAfterDays);
  if (ended.isDisabled) await cancelDeliveriesOf(db, claimed.targetId);
  return outcome;
}

/** Null if the secrets of a webhook cannot be decrypted. */
function addressOf(
  secrets: Context['secrets'],
  { kind, targetId, format, recipients, secrets: sealed, usesPreviousSecret }: ClaimedDelivery,
): NotificationAddress | null {
  if (kind === 'email') return { kind, recipients };
  try {
    const opened = openWebhook(secrets, targetId, sealed ?? Buffer.alloc(0));
    const { url, secret, previousSecret } = opened;
    const previous = usesPreviousSecret && previousSecret !== null ? [previousSecret] : [];
    return { kind, url, format, secrets: [secret, ...previous] };
  } catch (error) {
    if (error instanceof SluiceError) return null;
    throw error;
  }
}

/**
 * Sends a test to a target at once, even if it is disabled. It is in the log, and not retried. Recipients that have not
 * confirmed do not get it: they are asked again, once a day.
 *
 * @throws Throttled if the organization has sent too many e-mails
 */
export async function testTarget(
  context: Deliverer,
  sender: NotificationSender,
  { id, kind }: NotificationTarget,
): Promise<NotificationOutcome> {
  const claimedAtMs = performance.now();
  const claimed = await context.db.transaction(async (tx) => {
    const test = await insertTest(tx, id, deliveryLeaseMs);
    if (test === null || kind !== 'email') return test;
    await askRecipients(tx, sender, test.ownerId, test.recipients);
    const inserted = await withoutUnconfirmed(tx, sender, test);
    const { granted, waitMs } = await reserve(tx, sender, inserted, false);
    if (!granted) throw tooManyEmails(sender.emailsPerHour, waitMs);
    return inserted;
  });
  const outcome = claimed && (await attempt(context, sender, claimed, claimedAtMs, 0));
  if (!outcome) throw notFound();
  return outcome;
}

const tooManyEmails = (perHour: number, waitMs: number) =>
  new Throttled(
    `An organization sends at most ${perHour} e-mails per hour; each recipient counts as one. Try again in ${Math.ceil(waitMs / 60_000)} minutes, or ask your operator to raise MAX_EMAILS_PER_HOUR.`,
    waitMs,
  );

/**
 * Sends a delivery again, with the id of its event. One that still waits gets its next attempt now.
 *
 * @throws Refusal if the target is disabled
 */
export async function redeliver(
  { db }: Pick<Context, 'db'>,
  target: NotificationTarget,
  deliveryId: string,
): Promise<Delivery> {
  if (!target.enabled) {
    const detail = 'The notification target is disabled. Enable it first.';
    throw new Refusal({ code: 'conflict', detail, attr: null });
  }
  await repeatDelivery(db, target.id, deliveryId);
  const delivery = await findDelivery(db, target.id, deliveryId);
  if (!delivery) throw notFound();
  return delivery;
}
