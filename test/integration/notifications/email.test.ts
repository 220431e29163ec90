import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { SMTPServer } from 'smtp-server';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readConfig } from '../../../src/foundation/config/config.ts';
import type { NotificationSender } from '../../../src/foundation/domain/notification.ts';
import { openNotifications } from '../../../src/main/notifications.ts';
import { listDeliveries } from '../../../src/state/store/notifications/notification-deliveries.ts';
import {
  createTarget,
  removeTarget,
} from '../../../src/service/use-cases/notifications/change-targets.ts';
import { redeliver, testTarget } from '../../../src/service/use-cases/notifications/deliver.ts';
import {
  type Couriers,
  createWebhook,
  deliveriesOf,
  exportWithRuns,
  forgetNotifications,
  openCouriers,
  senderTo,
  skipWaits,
} from '../../support/notified.ts';
import { startReceiver } from '../../support/receiver.ts';
import { openRunSide, type RunSide } from '../../support/run-side.ts';
import { createTenant } from '../../support/tenants.ts';
import { until } from '../../support/until.ts';

interface Mail {
  readonly from: string;
  readonly to: readonly string[];
  readonly source: string;
}

let side: RunSide;
let exportId: string;
let server: SMTPServer;
let port: number;
let mails: Mail[];
let refused: Set<string>;
let couriers: Couriers;

beforeAll(async () => {
  side = await openRunSide();
  exportId = (await exportWithRuns(side, 1)).id;
});
afterAll(() => side?.stop());
beforeEach(async () => {
  mails = [];
  refused = new Set();
  couriers = openCouriers(side);
  server = new SMTPServer({
    disabledCommands: ['STARTTLS'],
    allowInsecureAuth: true,
    onAuth({ username, password }, _session, callback) {
      if (username === 'sluice' && password === 'canary') callback(null, { user: username });
      else callback(new Error('who are you?'));
    },
    onRcptTo({ address }, _session, callback) {
      const error = Object.assign(new Error('no such user'), { responseCode: 550 });
      callback(refused.has(address) ? error : null);
    },
    onData(stream, { envelope }, callback) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        mails.push({
          from: envelope.mailFrom === false ? '' : envelope.mailFrom.address,
          to: envelope.rcptTo.map(({ address }) => address),
          source: Buffer.concat(chunks).toString(),
        });
        callback();
      });
    },
  });
  server.on('error', () => {});
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  port = (server.server.address() as AddressInfo).port;
});
afterEach(async () => {
  await couriers.closeAll();
  await new Promise<void>((resolve) => server.close(resolve));
  await forgetNotifications(side.db);
});

/** The subject, whose words may be encoded (RFC 2047, Q). */
function subjectOf(mail: Mail | undefined): string | undefined {
  const [, raw] = /^Subject: (.*(?:\r\n .*)*)/m.exec(mail?.source ?? '') ?? [];
  return raw
    ?.replace(/\?=\r\n =\?UTF-8\?Q\?/g, '')
    .replace(/^=\?UTF-8\?Q\?|\?=$/g, '')
    .replaceAll('_', ' ')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

const env = (url = `smtp://sluice:canary@127.0.0.1:${port}`) => ({
  SMTP_URL: url,
  MAIL_FROM: 'Sluice <sluice@example.com>',
  MAIL_TRUSTED_DOMAINS: 'example.com',
});

async function createEmail(sender: NotificationSender, recipients: readonly string[]) {
  const actor = { organizationId: side.tenant.organizationId, keyId: null };
  return createTarget(side.context, sender, actor, null, {
    ...email,
    recipients,
  });
}

const email = {
  kind: 'email',
  description: '',
  url: null,
  format: 'json',
  events: ['export.paused'],
  enabled: true,
  digests: true,
} as const;

async function happen(reason = 'destination.access_denied: The destination refused access.') {
  await side.db.query(`select notify_targets($1, 'export.paused', $2)`, [
    exportId,
    JSON.stringify({ reason }),
  ]);
}

describe('an e-mail', () => {
  it('reaches each recipient, with subject, text and the id of the event', async () => {
    const sender = senderTo([], { env: env() });
    const created = await createEmail(sender, ['oncall@example.com', 'ops@example.com']);
    expect(created.secret).toBeNull();
    await happen();
    await couriers.add(sender).collect();
    await until(() => couriers.outcomes.length === 1);
    expect(couriers.outcomes[0]).toMatchObject({ delivered: true, answer: 'SMTP 250' });
    const [mail] = mails;
    expect(mail?.from).toBe('sluice@example.com');
    expect(mail?.to).toEqual(['oncall@example.com', 'ops@example.com']);
    expect(mail?.source).toContain('From: Sluice <sluice@example.com>');
    expect(subjectOf(mail)).toBe('[Sluice] Export "An export" was paused automatically');
    expect(mail?.source).toContain('Auto-Submitted: auto-generated');
    expect(mail?.source).toContain('destination.access_denied: The destination refused access.');
    const [event] = await side.db.query<{ id: string }>('select id from notification_events');
    expect(mail?.source).toMatch(new RegExp(`Message-ID: <${event?.id}@example.com>`, 'i'));
  });

  it('that the server refuses is tried again; a recipient that it refuses does not stop the others', async () => {
    const sender = senderTo([], { env: env() });
    await createEmail(sender, ['gone@example.com']);
    refused.add('gone@example.com');
    await happen();
    const courier = couriers.add(sender);
    await courier.collect();
    await until(() => couriers.outcomes.length === 1);
    expect(couriers.outcomes[0]).toMatchObject({ delivered: false, answer: 'SMTP 550' });
    expect((await deliveriesOf(side.db))[0]?.status).toBe('waiting');
    await side.db.query(
      `update notification_targets set recipients = '{gone@example.com,here@example.com}'`,
    );
    await skipWaits(side.db);
    await courier.collect();
    await until(() => mails.length === 1 && couriers.outcomes.length === 2);
    expect(mails[0]?.to).toEqual(['here@example.com']);
    expect(couriers.outcomes[1]?.answer).toBe('SMTP 250, 1 of 2 refused');
  });

  it('says nothing of the server or its password if that refuses us', async () => {
    const sender = senderTo([], { env: env(`smtp://sluice:wrong@127.0.0.1:${port}`) });
    await createEmail(sender, ['oncall@example.com']);
    await happen();
    await couriers.add(sender).collect();
    await until(() => couriers.outcomes.length === 1);
    expect(couriers.outcomes[0]?.answer).toMatch(/^SMTP 5\d\d$/);
  });
});

describe('an organization sends so many e-mails per hour', () => {
  const perHour = 12;
  const limited = (url?: string) => ({ ...env(url), MAX_EMAILS_PER_HOUR: String(perHour) });
  const recipients = (count: number) =>
    Array.from({ length: count }, (_, index) => `person-${index}@example.com`);
  const sent = () => mails.reduce((sum, { to }) => sum + to.length, 0);
  /** Lets every e-mail that was sent be so much older. */
  const age = (minutes: number) =>
    side.db.query(
      `update sent_emails set blocked_until = blocked_until - $1 * interval '1 minute',
              sent_at = array(select sent - $1 * interval '1 minute' from unnest(sent_at) as sent order by 1)`,
      [minutes],
    );
  const throttled = { name: 'Throttled' };

  it('and each recipient counts; more wait in their order, and webhooks do not wait', async () => {
    const receiver = await startReceiver();
    const sender = senderTo([receiver], { env: limited() });
    const { target } = await createEmail(sender, recipients(5));
    await createWebhook(side, sender, receiver);
    const courier = couriers.add(sender);
    for (const reason of ['one', 'two', 'three', 'four']) await happen(`reason-${reason}`);
    const collectAll = async () => {
      const before = couriers.outcomes.length;
      await courier.collect();
      await until(() => couriers.outcomes.length > before);
    };
    while (mails.length < 2 || receiver.received.length < 4) await collectAll();
    await until(async () => (await deliveries()).some(({ delayedBy }) => delayedBy !== null));
    const waiting = (await deliveries()).filter(({ status }) => status === 'waiting');
    expect(waiting.map(({ delayedBy, attempts }) => [delayedBy, attempts])).toEqual([
      ['email_limit', 0],
      ['email_limit', 0],
    ]);
    const inAnHour = Date.now() + 3_600_000;
    for (const { nextAttemptAt } of waiting) {
      expect(Math.abs(Date.parse(nextAttemptAt ?? '') - inAnHour)).toBeLessThan(600_000);
    }
    // A test is refused meanwhile, and leaves nothing in the log.
    await expect(testTarget(side.context, sender, target)).rejects.toMatchObject(throttled);
    expect(await deliveries()).toHaveLength(4);
    await age(59);
    await courier.collect();
    expect(mails).toHaveLength(2);
    await age(2);
    await courier.collect();
    await until(() => mails.length === 4);
    expect(mails.map(({ source }) => /reason-\w+/.exec(source)?.[0])).toEqual([
      'reason-one',
      'reason-two',
      'reason-three',
      'reason-four',
    ]);
    await receiver.close();

    async function deliveries() {
      const filter = { digestId: null, status: null };
      return (await listDeliveries(side.db, target.id, filter, null, 50)).results;
    }
  });

  it('also if it sends one again and again, or deletes the target and creates it anew', async () => {
    const sender = senderTo([], { env: limited() });
    const { target } = await createEmail(sender, recipients(5));
    const courier = couriers.add(sender);
    await happen();
    await courier.collect();
    await until(allAre('delivered'));
    const [delivery] = await deliveriesOf(side.db);
    await redeliver(side.context, target, delivery?.id ?? '');
    await courier.collect();
    await until(() => mails.length === 2);
    await until(allAre('delivered'));
    await redeliver(side.context, target, delivery?.id ?? '');
    await courier.collect();
    await until(isBlocked);
    await removeTarget(
      side.context,
      { organizationId: target.organizationId, keyId: null },
      target,
    );
    const again = await createEmail(sender, recipients(5));
    await happen();
    await courier.collect();
    await expect(testTarget(side.context, sender, again.target)).rejects.toMatchObject(throttled);
    await courier.close();
    expect(sent()).toBe(10);
  });

  it('also if it sends many tests at the same time, or the server refuses every recipient', async () => {
    const sender = senderTo([], { env: limited() });
    const { target } = await createEmail(sender, recipients(5));
    const test = () => testTarget(side.context, sender, target);
    for (const _ of Array(3)) {
      const outcomes = await Promise.allSettled(Array.from({ length: 8 }, test));
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
      await age(61);
    }
    expect(sent()).toBe(30);
    for (const recipient of recipients(5)) refused.add(recipient);
    expect((await test()).delivered).toBe(false);
    expect((await test()).delivered).toBe(false);
    await expect(test()).rejects.toMatchObject(throttled);
  });

  it('but not the ones that its mail server never got', async () => {
    const closed = senderTo([], { env: limited('smtp://127.0.0.1:1') });
    const { target } = await createEmail(closed, recipients(10));
    const wrongPassword = senderTo([], {
      env: limited(`smtp://sluice:wrong@127.0.0.1:${port}`),
    });
    for (const sender of [closed, closed, wrongPassword, wrongPassword]) {
      expect((await testTarget(side.context, sender, target)).delivered).toBe(false);
    }
    const sender = senderTo([], { env: limited() });
    expect((await testTarget(side.context, sender, target)).delivered).toBe(true);
  });

  it('and no other one waits for it', async () => {
    const sender = senderTo([], { env: limited() });
    const { target } = await createEmail(sender, recipients(10));
    await testTarget(side.context, sender, target);
    await happen();
    const courier = couriers.add(sender);
    await courier.collect();
    await until(isBlocked);
    const other = await createTenant(side.db);
    const theirs = await createTarget(
      side.context,
      sender,
      { organizationId: other.organizationId, keyId: null },
      null,
      { ...email, recipients: ['their@example.com'] },
    );
    await testTarget(side.context, sender, theirs.target);
    expect(mails.map(({ to }) => to.length)).toEqual([10, 1]);
    await side.db.query(`update notification_deliveries set status = 'waiting', is_repeat = true
      where target_id = '${theirs.target.id}'`);
    await courier.collect();
    await until(() => mails.length === 3);
    expect(mails[2]?.to).toEqual(['their@example.com']);
  });

  it('and a higher limit lets a worker that starts send at once', async () => {
    const sender = senderTo([], { env: limited() });
    const { target } = await createEmail(sender, recipients(10));
    await testTarget(side.context, sender, target);
    await happen();
    const before = couriers.add(sender);
    await before.collect();
    await until(isBlocked);
    await before.close();
    await couriers.add(senderTo([], { env: env() })).collect();
    await until(() => mails.length === 2);
  });

  async function isBlocked(): Promise<boolean> {
    const rows = await side.db.query('select from sent_emails where blocked_until > now()');
    const held = await side.db.query('select from notification_deliveries where lease is not null');
    return rows.length === 1 && held.length === 0;
  }
  const allAre = (status: string) => async () =>
    (await deliveriesOf(side.db)).every((delivery) => delivery.status === status);
});

describe('a mail server that never answers', () => {
  let silent: Server;

  beforeEach(async () => {
    silent = createServer((socket) => socket.on('error', () => {}));
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
  });
  afterEach(() => void silent.close());

  it('ends the attempt, and delays no webhook', async () => {
    const receiver = await startReceiver();
    const url = `smtp://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const sender = senderTo([receiver], { env: env(url), timeoutMs: 2_000 });
    for (const _ of Array(9)) await createEmail(sender, ['oncall@example.com']);
    await createWebhook(side, sender, receiver);
    await happen();
    await couriers.add(sender).collect();
    await until(() => receiver.received.length === 1, { timeoutMs: 1_500 });
    await until(() => couriers.outcomes.some(({ answer }) => answer === 'timeout'));
    await receiver.close();
  });
});

describe('the settings of the mail server', () => {
  it('are both needed', () => {
    const config = readConfig({ SMTP_URL: 'smtp://mail.example.com:587' });
    expect(() => openNotifications(config)).toThrow('SMTP_URL needs MAIL_FROM');
  });

  it.each([
    { SMTP_URL: 'mail.example.com' },
    { SMTP_URL: 'https://mail.example.com' },
    { SMTP_URL: 'smtp://mail.example.com', MAIL_FROM: 'nobody' },
    { SMTP_URL: 'smtp://mail.example.com', MAIL_FROM: 'a@example.com\r\nBcc: b@example.com' },
  ])('are checked: %j', (given) => {
    expect(() => readConfig(given)).toThrow(/SMTP_URL|MAIL_FROM/);
  });

  it('refuse addresses that could begin another header or command', async () => {
    const sender = senderTo([], { env: env() });
    for (const bad of [
      'a@example.com\r\nBcc: b@example.com',
      'A <a@example.com>',
      'a b@example.com',
      '-@x',
    ]) {
      await expect(createEmail(sender, [bad])).rejects.toThrow('plain e-mail addresses');
    }
  });
});
