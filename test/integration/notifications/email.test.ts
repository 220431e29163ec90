import { createServer } from 'node:net';
import { SMTPServer } from 'smtp-server';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readConfig } from '../../../src/foundation/config/config.ts';
import type { NotificationSender } from '../../../src/foundation/domain/notification.ts';
import { findMailFault, openNotifications } from '../../../src/main/notifications.ts';
import {
  changeTarget,
  createTarget,
} from '../../../src/service/use-cases/notifications/targets.ts';
import { testTarget } from '../../../src/service/use-cases/notifications/deliver.ts';
import {
  type Couriers,
  createWebhook,
  deliveriesOf,
  forgetNotifications,
  openCouriers,
  senderTo,
  skipWaits,
} from '../../support/notified.ts';
import { listen } from '../../support/free-port.ts';
import { startReceiver } from '../../support/receiver.ts';
import { tlsFiles } from '../../support/tls-certificates.ts';
import { openRunSide } from '../../support/run-side.ts';
import { until } from '../../support/until.ts';
import { atNight } from '../../support/nightly.ts';
import { inTest, listenInTest, useStage } from '../../support/use-stage.ts';

interface Mail {
  readonly from: string;
  readonly to: readonly string[];
  readonly source: string;
}
let exportId: string;
let server: SMTPServer;
let port: number;
let mails: Mail[];
let refused: Set<string>;
let couriers: Couriers;

const side = useStage(openRunSide);
beforeAll(async () => {
  exportId = (await side.exportWithRuns(1)).id;
});
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
  port = await listen(server.server);
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
  MAIL_RECIPIENTS: 'Example.com,boss@example.org',
});

async function createEmail(sender: NotificationSender, recipients: readonly string[]) {
  return createTarget(side.context, sender, side.actor, null, { ...email, recipients });
}

const email = {
  ...({ kind: 'email', description: '', url: null, format: 'json', enabled: true } as const),
  events: ['export.paused'] as const,
};

async function happen(reason = 'destination.access_denied: The destination refused access.') {
  await side.sql`
    select notify_targets(${exportId}, 'export.paused', ${JSON.stringify({ reason })})`;
}

/** Sends what happens, once as many attempts have ended. */
async function send(sender: NotificationSender, outcomes = 1, courier = couriers.add(sender)) {
  await courier.collect();
  await until(() => couriers.outcomes.length === outcomes);
  return couriers.outcomes.at(-1);
}

describe('an e-mail', () => {
  it('reaches each recipient, with subject, text and the id of the event', async () => {
    const sender = senderTo([], { env: env() });
    const created = await createEmail(sender, ['oncall@example.com', 'ops@example.com']);
    expect(created.secret).toBeNull();
    await happen();
    expect(await send(sender)).toMatchObject({ delivered: true, answer: 'SMTP 250' });
    const [mail] = mails;
    expect(mail?.from).toBe('sluice@example.com');
    expect(mail?.to).toEqual(['oncall@example.com', 'ops@example.com']);
    expect(mail?.source).toContain('From: Sluice <sluice@example.com>');
    expect(subjectOf(mail)).toBe('[Sluice] Export "An export" was paused automatically');
    expect(mail?.source).toContain('Auto-Submitted: auto-generated');
    expect(mail?.source).toContain('destination.access_denied: The destination refused access.');
    const [event] = await side.sql<{ id: string }>`
      select event_id as id from notification_deliveries`;
    expect(mail?.source).toMatch(new RegExp(`Message-ID: <${event?.id}@example.com>`, 'i'));
  });

  it('that the server refuses is tried again; a recipient that it refuses does not stop the others', async () => {
    const sender = senderTo([], { env: env() });
    await createEmail(sender, ['gone@example.com']);
    refused.add('gone@example.com');
    await happen();
    const courier = couriers.add(sender);
    expect(await send(sender, 1, courier)).toMatchObject({ delivered: false, answer: 'SMTP 550' });
    expect((await deliveriesOf(side.db))[0]?.status).toBe('waiting');
    await side.sql`
      update notification_targets set recipients = '{gone@example.com,here@example.com}'`;
    await skipWaits(side.db);
    expect((await send(sender, 2, courier))?.answer).toBe('SMTP 250, 1 of 2 refused');
    expect(mails.map(({ to }) => to)).toEqual([['here@example.com']]);
  });

  it('says nothing of the server or its password if that refuses us', async () => {
    const sender = senderTo([], { env: env(`smtp://sluice:wrong@127.0.0.1:${port}`) });
    await createEmail(sender, ['oncall@example.com']);
    await happen();
    expect((await send(sender))?.answer).toMatch(/^SMTP 5\d\d$/);
  });

  it('names the certificate if this process does not trust it, and so does doctor', async () => {
    const { serverCertificate: cert, serverKey: key } = tlsFiles;
    const relay = new SMTPServer({ cert, key, authOptional: true });
    const relayPort = await listenInTest(relay.server);
    const given = env(`smtp://127.0.0.1:${relayPort}`);
    const sender = senderTo([], { env: given });
    await createEmail(sender, ['oncall@example.com']);
    await happen();
    expect((await send(sender))?.answer).toBe('certificate_refused');
    expect(await findMailFault(readConfig(given))).toMatch(/certificate.*NODE_EXTRA_CA_CERTS/);
  });
});

it('the recipients that the operator lists are addresses and domains; others are refused by name, and get nothing once they are no longer listed', async () => {
  const sender = senderTo([], { env: env() });
  const outside = ['a@example.org', 'b@sub.example.com', 'c@notexample.com'];
  for (const each of outside) {
    const created = createEmail(sender, ['ops@example.com', each]);
    await expect(created).rejects.toThrow(`no mail to ${each}. Ask your operator to list`);
  }
  const { target } = await createEmail(sender, ['Boss@Example.org', 'ops@EXAMPLE.com']);
  const change = { recipients: ['a@example.org'] };
  await expect(changeTarget(side.context, sender, side.actor, target.id, change)).rejects.toThrow(
    'MAIL_RECIPIENTS',
  );
  expect((await testTarget(side.context, sender, target)).delivered).toBe(true);
  expect(mails[0]?.to).toEqual(['Boss@example.org', 'ops@example.com']);
  const fewer = senderTo([], { env: { ...env(), MAIL_RECIPIENTS: 'boss@example.org' } });
  await testTarget(side.context, fewer, target);
  expect(mails[1]?.to).toEqual(['Boss@example.org']);
  const unlisted = senderTo([], { env: { ...env(), MAIL_RECIPIENTS: '' } });
  const refusal = { delivered: false, answer: 'recipients_not_listed' };
  expect(await testTarget(side.context, unlisted, target)).toMatchObject(refusal);
  expect(mails).toHaveLength(2);
  // Its other settings can still change.
  const renamed = { description: 'Ops' };
  const changed = await changeTarget(side.context, unlisted, side.actor, target.id, renamed);
  expect(changed.description).toBe('Ops');
});

atNight('a mail server that never answers ends the attempt, and delays no webhook', async () => {
  const receiver = await inTest(startReceiver());
  const silent = createServer((socket) => socket.on('error', () => {}));
  const url = `smtp://127.0.0.1:${await listenInTest(silent)}`;
  const sender = senderTo([receiver], { env: env(url), timeoutMs: 2_000 });
  for (const _ of Array(9)) await createEmail(sender, ['oncall@example.com']);
  await createWebhook(side, sender, receiver);
  await happen();
  await couriers.add(sender).collect();
  await until(() => receiver.received.length === 1, { timeoutMs: 1_500 });
  await until(() => couriers.outcomes.some(({ answer }) => answer === 'timeout'));
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
    const header = 'a@example.com\r\nBcc: b@example.com';
    for (const bad of [header, 'A <a@example.com>', 'a b@example.com', '-@x']) {
      await expect(createEmail(sender, [bad])).rejects.toThrow('plain e-mail addresses');
    }
  });
});
