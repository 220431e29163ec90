import { randomUUID } from 'node:crypto';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  maxTargets,
  notificationTypes,
  retryDelaysMs,
} from '../../../src/foundation/domain/notification.ts';
import type { ApiClient } from '../../support/api-client.ts';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { senderTo } from '../../support/notified.ts';
import { startReceiver } from '../../support/receiver.ts';
import { createTenant } from '../../support/tenants.ts';
import { useStage } from '../../support/use-stage.ts';
import { readFileSync } from 'node:fs';
import { disableAfterDays } from '../../../src/service/use-cases/notifications/deliver.ts';

const receiver = useStage(startReceiver);
const api = useStage(() => startApiUnderTest({ notifications: senderTo([receiver]) }));
let targets: string;

beforeAll(async () => {
  targets = `${api.project}/notification_targets`;
});
beforeEach(() => receiver.answer(204));
afterEach(() => api.sql`delete from notification_targets`);

const webhook = (changes: object = {}) => ({ url: receiver.url, ...changes });

async function create(changes: object = {}, client: ApiClient = api.client) {
  const { status, text, body } = await client.post(targets, webhook(changes));
  expect(status, text).toBe(201);
  return body as typeof body & { secret: string };
}

describe('a notification target', () => {
  test('is created with defaults; its secret and its URL are shown never again', async () => {
    const created = await create({ url: `${receiver.url}/T0KEN/abcd?key=canary` });
    expect(created).toMatchObject({
      team_id: api.teamId,
      kind: 'webhook',
      url_preview: `http://${receiver.endpoint}/…nary`,
      format: 'json',
      enabled: true,
      disabled_reason: null,
      failing_since: null,
    });
    expect(created.events).toEqual([...notificationTypes]);
    expect(created.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    for (const path of [targets, `${targets}/${created.id}`]) {
      const { text } = await api.get(path);
      expect(text).toContain(created.id);
      expect(text).not.toContain('whsec_');
      expect(text).not.toContain('T0KEN');
    }
    const readable = api.sql`
      select from notification_targets t where t::text like '%T0KEN%' or t::text like '%whsec_%'`;
    expect(await readable).toEqual([]);
  });

  test('has no copy of its secret among the answers kept for an Idempotency-Key', async () => {
    const headers = { 'idempotency-key': randomUUID() };
    const first = await api.post(targets, webhook(), { headers });
    const again = await api.post(targets, webhook(), { headers });
    expect(first.body.secret).toMatch(/^whsec_/);
    expect(again.body).toEqual({ ...first.body, secret: null });
    const kept = await api.sql.value`
      select response from idempotency_keys where idempotency_key = ${headers['idempotency-key']}`;
    expect(kept).not.toContain('whsec_');
  });

  test('changes field by field, and says who changed it', async () => {
    const { id } = await create();
    const changed = await api.patch(`${targets}/${id}`, {
      description: 'On-call',
      events: ['export.recovered', 'export.recovered'],
      format: 'slack',
      enabled: false,
    });
    expect(changed.body).toMatchObject({
      description: 'On-call',
      events: ['export.recovered'],
      format: 'slack',
      enabled: false,
      url_preview: `http://${receiver.endpoint}/…uice`,
    });
    const refused = await api.patch(`${targets}/${id}`, { url: 'http://example.com/' });
    expect([refused.status, refused.body.attr]).toEqual([400, 'url']);
    const actions = await api.sql.values`
      select action from activity where subject_type = 'notification_target' and subject_id = ${id}
        order by id`;
    expect(actions).toEqual(['created', 'updated']);
    expect((await api.delete(`${targets}/${id}`)).status).toBe(204);
    expect((await api.get(`${targets}/${id}`)).status).toBe(404);
  });

  test('is seen by its project and organization, and by no other', async () => {
    const organization = `/api/organizations/${api.tenant.organizationId}/notification_targets`;
    const second = `/api/projects/${api.tenant.projectIds[1]}/notification_targets`;
    const ofProject = await create();
    const ofAll = (await api.post(organization, webhook())).body;
    expect(ofAll.team_id).toBeNull();
    const idsAt = async (path: string, client = api.client) =>
      (await client.get(path)).body.results.map(({ id }) => id);
    expect(await idsAt(targets)).toEqual([ofProject.id]);
    expect(await idsAt(second)).toEqual([]);
    expect(await idsAt(organization)).toEqual([ofAll.id, ofProject.id]);
    expect((await api.get(`${second}/${ofProject.id}`)).status).toBe(404);
    // A key of one project must not change what notifies the whole organization.
    expect((await api.delete(`${targets}/${ofAll.id}`)).status).toBe(404);
    const foreign = await createTenant(api.db);
    const path = `/api/projects/${foreign.projectIds[0]}/notification_targets`;
    const theirs = api.withKey(foreign.key);
    expect(await idsAt(path, theirs)).toEqual([]);
    expect((await theirs.post(`${path}/${ofProject.id}/test`)).status).toBe(404);
  });

  test('is one of 20 at most', async () => {
    const organization = `/api/organizations/${api.tenant.organizationId}/notification_targets`;
    const made = await Promise.all([...Array(24)].map(() => api.post(organization, webhook())));
    expect(made.filter(({ status }) => status === 201)).toHaveLength(20);
    const refused = made.find(({ status }) => status !== 201);
    expect(refused?.body.detail).toContain('20 notification targets');
  });
});

describe('a test', () => {
  test('says how it failed, is in the log, and is not retried', async () => {
    const { id } = await create();
    receiver.answer(418);
    const { body } = await api.post(`${targets}/${id}/test`);
    expect(body).toMatchObject({ delivered: false, answer: 'HTTP 418' });
    const log = (await api.get(`${targets}/${id}/deliveries`)).body;
    expect(log.results).toEqual([
      expect.objectContaining({
        event_type: 'test',
        status: 'given_up',
        attempts: 1,
        batch_export_id: null,
        next_attempt_at: null,
        attempt_log: [
          { at: expect.any(String), answer: 'HTTP 418', latency_ms: expect.any(Number) },
        ],
      }),
    ]);
    const ofStatus = async (status: string) =>
      (await api.get(`${targets}/${id}/deliveries?status=${status}`)).body.results?.length;
    expect([await ofStatus('given_up'), await ofStatus('replaced')]).toEqual([1, 0]);
    expect(await ofStatus('lost')).toBeUndefined();
    expect((await api.get(`${targets}/${id}`)).body.failing_since).not.toBeNull();
  });
});

type Verify = (
  secret: string,
  headers: Readonly<Record<string, string>>,
  body: string,
  nowSeconds?: number,
) => boolean;

const page = readFileSync(new URL('../../../docs/notifications.md', import.meta.url), 'utf8');

let verify: Verify;

beforeAll(async () => {
  const [, code = ''] = /```js\n(.*?)```/s.exec(page) ?? [];
  const module = `data:text/javascript,${encodeURIComponent(code)}`;
  ({ verify } = (await import(/* @vite-ignore */ module)) as { verify: Verify });
});

describe('docs/notifications.md', () => {
  test('verifies what Sluice sends, and nothing else', async () => {
    const { id, secret } = (await api.post(targets, { url: receiver.url })).body;
    const tested = await api.post(`${targets}/${id}/test`);
    expect(tested).toMatchObject({ status: 200, body: { delivered: true, answer: 'HTTP 204' } });
    const first = receiver.received.at(-1);
    if (!first) throw new Error('nothing was received');
    const { headers, body } = first;
    expect(headers['content-type']).toBe('application/json');
    expect(JSON.parse(body)).toMatchObject({ id: headers['webhook-id'], type: 'test' });
    expect(verify(String(secret), headers, body)).toBe(true);
    expect(verify(String(secret), headers, `${body} `)).toBe(false);
    expect(verify(String(secret), { ...headers, 'webhook-id': 'another' }, body)).toBe(false);
    expect(verify('whsec_bm90IGEgcmVhbCBzZWNyZXQ=', headers, body)).toBe(false);
    const anHourLater = Number(headers['webhook-timestamp']) + 3_600;
    expect(verify(String(secret), headers, body, anHourLater)).toBe(false);
    // After a rotation both secrets verify for a day.
    const { body: after } = await api.post(`${targets}/${id}/rotate_secret`);
    const { secret: rotated, last_updated_at: at, previous_secret_until: until } = after;
    expect(rotated).not.toBe(secret);
    expect(Date.parse(String(until)) - Date.parse(String(at))).toBeGreaterThan(23 * 3_600_000);
    await api.post(`${targets}/${id}/test`);
    const second = receiver.received.at(-1);
    for (const each of [secret, rotated]) {
      expect(verify(String(each), second?.headers ?? {}, second?.body ?? '')).toBe(true);
    }
  });

  test('names each event, wait and limit', () => {
    for (const type of notificationTypes) {
      expect(page).toMatch(new RegExp(`^\\| .*\`${type}\`.* \\|`, 'm'));
    }
    const waits = retryDelaysMs.map((ms) => {
      if (ms < 60_000) return `${ms / 1_000} s`;
      return ms < 3_600_000 ? `${ms / 60_000} min` : `${ms / 3_600_000} h`;
    });
    expect(page).toContain(`${waits.slice(0, -1).join(', ')} and ${waits.at(-1)} after`);
    expect(page).toContain(`${retryDelaysMs.length + 1} attempts`);
    expect(page).toContain(`can have ${maxTargets} targets`);
    expect(disableAfterDays).toBe(5);
  });
});
