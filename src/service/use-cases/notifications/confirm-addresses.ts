import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { NotificationSender } from '../../../foundation/domain/notification.ts';
import { Refusal } from '../../../foundation/domain/problem.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import {
  type AskedAddress,
  claimAddresses,
  confirmAddress,
  delayAddress,
  findConfirmed,
  maxAddresses,
  wantAddresses,
} from '../../../state/store/notifications/email-addresses.ts';
import { reserveEmails } from '../../../state/store/notifications/sent-emails.ts';
import type { Context } from '../context.ts';

const identity = 'email-confirmation';

const normalize = (address: string): string => address.toLowerCase();

/** The recipients that may get notifications: confirmed, or of a domain that the operator trusts. */
export async function confirmedRecipients(
  sql: Sql,
  sender: NotificationSender,
  organizationId: string,
  recipients: readonly string[],
): Promise<readonly string[]> {
  const others = recipients.filter((each) => !sender.trusts(each)).map(normalize);
  const confirmed =
    others.length === 0 ? new Set() : await findConfirmed(sql, organizationId, others);
  return recipients.filter((each) => sender.trusts(each) || confirmed.has(normalize(each)));
}

/**
 * Has the recipients asked for their confirmation, in the transaction that names them.
 *
 * @throws Refusal if the organization has too many addresses
 */
export async function askRecipients(
  tx: Sql,
  sender: NotificationSender,
  organizationId: string,
  recipients: readonly string[],
): Promise<void> {
  const others = recipients.filter((each) => !sender.trusts(each)).map(normalize);
  if (await wantAddresses(tx, organizationId, [...new Set(others)])) return;
  const detail = `The organization has ${maxAddresses} e-mail addresses, the maximum. Unconfirmed ones that no target names go after 30 days.`;
  throw new Refusal({ code: 'invalid_input', detail, attr: 'recipients' });
}

/** Milliseconds until a mail is tried again that the mail server did not take. */
const retryMs = 10 * 60_000;

/** Sends the mails that wait and ask for a confirmation. They count among the e-mails of their organization. */
export async function sendConfirmations(
  { db, secrets }: Pick<Context, 'db' | 'secrets'>,
  sender: NotificationSender,
  limit: number,
): Promise<void> {
  if (!sender.canConfirm) return;
  const claimed = await claimAddresses(db, limit);
  const send = async (asked: AskedAddress) => {
    const { organizationId, address } = asked;
    const perHour = sender.emailsPerHour;
    const { granted, waitMs } = await reserveEmails(db, organizationId, 1, perHour, false);
    if (!granted) return delayAddress(db, asked, Math.max(waitMs, retryMs));
    const token = secrets.seal({ organizationId, address }, identity).toString('base64url');
    if (!(await sender.askToConfirm(address, token))) await delayAddress(db, asked, retryMs);
  };
  await Promise.all(claimed.map(send));
}

/**
 * Confirms the address that a token names. Tokens are sealed, so a forged one does not reach the database.
 *
 * @returns false if the token is not valid, or no longer
 */
export async function confirmByToken(
  { db, secrets }: Pick<Context, 'db' | 'secrets'>,
  token: string,
): Promise<boolean> {
  try {
    const opened = secrets.open(Buffer.from(token, 'base64url'), identity);
    const { organizationId, address } = opened;
    return await confirmAddress(db, {
      organizationId: String(organizationId),
      address: String(address),
    });
  } catch (error) {
    if (error instanceof SluiceError && error.code === 'secrets.undecryptable') return false;
    throw error;
  }
}
