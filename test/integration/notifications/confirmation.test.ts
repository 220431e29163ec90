import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { NotificationSender } from '../../../src/foundation/domain/notification.ts';
import { emailText } from '../../../src/service/notifications/payload.ts';
import type { Context } from '../../../src/service/use-cases/context.ts';
import { sendConfirmations } from '../../../src/service/use-cases/notifications/confirm-addresses.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { forgetNotifications, senderTo } from '../../support/notified.ts';

/** A recipient confirms once before it gets a notification. */

let server: SMTPServer;
let mails: { readonly to: readonly string[]; readonly text: string }[] = [];
let sender: NotificationSender;
let api: ApiUnderTest;
let context: Pick<Context, 'db' | 'secrets'>;
let targets: string;

beforeAll(async () => {
  server = new SMTPServer({
    disabledCommands: ['STARTTLS', 'AUTH'],
    authOptional: true,
    onData(stream, { envelope }, callback) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const text = Buffer.concat(chunks)
          .toString()
          .replaceAll('=\r\n', '')
          .replaceAll('=3D', '=');
        mails.push({ to: envelope.rcptTo.map(({ address }) => address), text });
        callback();
      });
    },
  });
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  const { port } = server.server.address() as AddressInfo;
  sender = senderTo([], {
    env: {
      SMTP_URL: `smtp://127.0.0.1:${port}`,
      MAIL_FROM: 'sluice@example.com',
      PUBLIC_URL: 'https://sluice.example.com/',
      MAIL_TRUSTED_DOMAINS: 'Trusted.example',
      MAX_EMAILS_PER_HOUR: '12',
    },
  });
  let found: Pick<Context, 'db' | 'secrets'> | null = null;
  api = await startApiUnderTest({ notifications: sender }, (options) => {
    found = options.context;
  });
  if (!found) throw new Error('the API has no context');
  context = found;
  targets = `${api.project}/notification_targets`;
});
afterAll(async () => {
  await api?.stop();
  await new Promise<void>((resolve) => server.close(resolve));
});
afterEach(async () => {
  mails = [];
  await forgetNotifications(api.db);
});

const create = async (...recipients: readonly string[]) =>
  (await api.client.post(targets, { kind: 'email', recipients })).body;
const sendAll = () => sendConfirmations(context, sender, 10);
const linkIn = (text = '') => /https:\S+/.exec(text)?.[0] ?? '';

/** As a browser does: the link opens a page, whose form is sent. */
async function visit(link: string, method: 'GET' | 'POST') {
  const { pathname, search } = new URL(link);
  const origin = new URL(api.baseUrl).origin;
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const init = method === 'POST' ? { method, headers, body: '' } : {};
  const response = await fetch(`${origin}${pathname}${search}`, init);
  return { status: response.status, headers: response.headers, text: await response.text() };
}

describe('a recipient', () => {
  it('is asked once, gets nothing before it confirms, and everything afterwards', async () => {
    const { id, unconfirmed_recipients: waiting } = await create('Oncall@strange.example');
    expect(waiting).toEqual(['Oncall@strange.example']);
    await sendAll();
    await sendAll();
    expect(mails.map(({ to }) => to)).toEqual([['oncall@strange.example']]);
    const test = await api.client.post(`${targets}/${id}/test`);
    expect(test.body).toMatchObject({ delivered: false, answer: 'unconfirmed' });
    expect(mails).toHaveLength(1);

    const link = linkIn(mails[0]?.text);
    expect(link).toMatch(/^https:\/\/sluice\.example\.com\/confirm-address\?token=[\w-]+$/);
    const page = await visit(link, 'GET');
    expect(page.status).toBe(200);
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    // A mail scanner that opens the link confirms nothing.
    expect((await api.client.get(`${targets}/${id}`)).body.unconfirmed_recipients).toHaveLength(1);
    expect((await visit(link, 'POST')).status).toBe(200);
    expect((await visit(link, 'POST')).text).toContain('Thank you');
    expect((await api.client.get(`${targets}/${id}`)).body.unconfirmed_recipients).toEqual([]);
    const delivered = await api.client.post(`${targets}/${id}/test`);
    expect(delivered.body).toMatchObject({ delivered: true });
    expect(mails[1]?.to).toEqual(['Oncall@strange.example']);
    // Another target of the organization needs no second confirmation.
    expect((await create('oncall@strange.example')).unconfirmed_recipients).toEqual([]);
  });

  it('of a domain that the operator trusts is not asked', async () => {
    const { id, unconfirmed_recipients: waiting } = await create('a@trusted.example');
    expect(waiting).toEqual([]);
    await sendAll();
    expect((await api.client.post(`${targets}/${id}/test`)).body.delivered).toBe(true);
    expect(mails.map(({ to }) => to)).toEqual([['a@trusted.example']]);
  });

  it('that has confirmed gets the mail without those that have not', async () => {
    const { id } = await create('a@trusted.example', 'b@strange.example');
    expect((await api.client.post(`${targets}/${id}/test`)).body.delivered).toBe(true);
    expect(mails.map(({ to }) => to)).toEqual([['a@trusted.example']]);
  });

  it('is asked again a day later by a test, at most five times', async () => {
    const { id } = await create('b@strange.example');
    for (let day = 0; day < 8; day += 1) {
      await sendAll();
      await api.client.post(`${targets}/${id}/test`);
      await sendAll();
      await api.db.query(
        `update email_addresses set requested_at = requested_at - interval '25 hours'`,
      );
      await api.client.post(`${targets}/${id}/test`);
    }
    expect(mails).toHaveLength(5);
  });

  it('is asked at most three times a day, however many organizations name it', async () => {
    await create('b@strange.example');
    await api.db.query(
      `with made as (insert into organizations (id, name) select gen_random_uuid(), 'o' || n from generate_series(1, 5) n returning id)
       insert into email_addresses (organization_id, address) select id, 'b@strange.example' from made`,
    );
    for (let turn = 0; turn < 8; turn += 1) await sendAll();
    expect(mails.length).toBeLessThanOrEqual(6);
    await api.db.query(`update email_addresses set requested_at = now(), confirmed_at = null`);
    await api.db.query(
      `update email_addresses set requested_at = null where organization_id = (select min(organization_id::text)::uuid from email_addresses)`,
    );
    const before = mails.length;
    await sendAll();
    expect(mails).toHaveLength(before);
  });
});

it('mails that ask count among the e-mails of the organization', async () => {
  for (let target = 0; target < 4; target += 1) {
    await create(...Array.from({ length: 5 }, (_, index) => `p${target}-${index}@strange.example`));
  }
  for (let turn = 0; turn < 30; turn += 1) await sendAll();
  expect(mails).toHaveLength(12);
});

it.each(['', '?token=', '?token=abc', `?token=${'a'.repeat(400)}`, `?token=${'a'.repeat(3_000)}`])(
  'a link that Sluice did not send (%s) confirms nothing',
  async (search) => {
    const { status } = await visit(`https://x.example/confirm-address${search}`, 'POST');
    expect(status).toBe(400);
  },
);

it('an organization has at most 1,000 addresses', async () => {
  await api.db.query(
    `insert into email_addresses (organization_id, address) select $1, n || '@strange.example' from generate_series(1, 1000) n`,
    [api.tenant.organizationId],
  );
  expect((await create('more@strange.example')).attr).toBe('recipients');
});

it('an installation that knows no address of its page refuses recipients that it cannot ask', async () => {
  const blind = senderTo([], {
    env: {
      SMTP_URL: 'smtp://127.0.0.1:1',
      MAIL_FROM: 'sluice@example.com',
      MAIL_TRUSTED_DOMAINS: 'a.example',
    },
  });
  const other = await startApiUnderTest({ notifications: blind });
  try {
    const post = (recipient: string) =>
      other.client.post(`${other.project}/notification_targets`, {
        kind: 'email',
        recipients: [recipient],
      });
    expect((await post('x@a.example')).status).toBe(201);
    expect((await post('x@b.example')).body.attr).toBe('recipients');
  } finally {
    await other.stop();
  }
});

describe('the subject of a mail', () => {
  const subjectFor = (name: string) =>
    emailText(
      {
        ...{ eventId: 'e', type: 'export.paused', happenedAt: '2024-03-01T00:00:00Z' },
        ...{ organizationId: 'o', projectId: 1, facts: { export: { id: 'the-id', name } } },
      },
      null,
    ).subject;

  it.each(['Orders (EU) #2', 'Bestellungen_täglich', '注文'])('names the export %s', (name) => {
    expect(subjectFor(name)).toContain(`"${name}"`);
  });

  it.each([
    ...['win at https://evil.example', 'evil.example', 'ceo@evil.example', 'evil．example'],
    ...['evil。example', 'www.evil', 'evil:443', 'a/b', 'x'.repeat(200), 'a\nBcc: b@c.example'],
  ])('does not say %j, which looks like an address or is long', (name) => {
    expect(subjectFor(name)).toBe('[Sluice] Export "the-id" was paused automatically');
  });
});
