import { expect, onTestFinished, test } from 'vitest';
import type { ApiAnswer } from '../../support/api-client.ts';
import { startApiBeside, useApi } from '../../support/api-under-test.ts';
import { createKey } from '../../support/tenants.ts';

const rateLimit = { perMinute: 50, perHour: 60 };
const api = useApi({ rateLimit });

/** Another process of the API. */
async function open(limit: typeof rateLimit, key: string) {
  const beside = await startApiBeside(api, () => ({ rateLimit: limit }));
  onTestFinished(() => beside.stop());
  return beside.client.withKey(key);
}

const newKey = async () =>
  (await createKey(api.db, { organizationId: api.tenant.organizationId })).key;

test('a key may send exactly its limit over all API processes, and then learns when to retry', async () => {
  const path = api.exports;
  const clients = [api.client, await open(rateLimit, api.tenant.key)];
  const answers = await Promise.all(
    Array.from({ length: 140 }, (_, n) => clients[n % 2 === 0 ? 0 : 1]?.get(path)),
  );
  const passed = answers.filter((answer) => answer?.status === 200);
  const refused = answers.filter((answer) => answer?.status === 429);
  expect(passed).toHaveLength(rateLimit.perMinute);
  expect(refused).toHaveLength(140 - rateLimit.perMinute);
  const [one] = refused;
  expect(one?.body).toMatchObject({ type: 'throttled_error', code: 'throttled', attr: null });
  const retryAfter = Number(one?.headers.get('retry-after'));
  expect(retryAfter).toBeGreaterThan(0);
  expect(retryAfter).toBeLessThanOrEqual(60);

  // Another key has a limit of its own.
  const fresh = await (await api.withNewKey({})).get(path);
  expect([fresh.status, fresh.headers.get('ratelimit-limit')]).toEqual([200, '50']);
  expect(fresh.headers.get('ratelimit-remaining')).toBe('49');
  expect(Number(fresh.headers.get('ratelimit-reset'))).toBeLessThanOrEqual(60);
  expect(fresh.headers.get('ratelimit-policy')).toBe('50;w=60, 60;w=3600');

  // A minute later there is the rest of the hour.
  await api.sql`
      update used_budgets set began_at = now() - interval '61 seconds' where owner = ${api.tenant.keyId}
        and span = 'minute'`;
  const later = await open(rateLimit, api.tenant.key);
  const next = await Promise.all(Array.from({ length: 20 }, () => later.get(path)));
  expect(next.filter(({ status }) => status === 200)).toHaveLength(10);
  const hourly = next.find(({ status }) => status === 429);
  expect(Number(hourly?.headers.get('retry-after'))).toBeGreaterThan(60);
});

test('costly requests, large bodies and large pages count as several', async () => {
  const key = await newKey();
  const client = await open({ perMinute: 40, perHour: 60 }, key);
  const left = async (answering: Promise<ApiAnswer>) => {
    return Number((await answering).headers.get('ratelimit-remaining'));
  };
  const id = '00000000-0000-0000-0000-000000000000';
  expect(await left(client.get(api.exports))).toBe(39);
  expect(await left(client.get(`${api.exports}?limit=100`))).toBe(38);
  expect(await left(client.get(`${api.exports}?limit=1000`))).toBe(33);
  expect(await left(client.get(`${api.exports}?limit=99999`))).toBe(28);
  expect(await left(client.post(api.exports, { name: 'n'.repeat(40_000) }))).toBe(25);
  expect(await left(client.get(`${api.exports}/${id}/preview`))).toBe(15);
  // Without a length, as streams are sent.
  const chunks = new Blob([JSON.stringify({ name: 'n'.repeat(40_000) })]).stream();
  const streamed = await fetch(`${client.baseUrl}${api.exports}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: chunks,
    duplex: 'half',
  } as RequestInit);
  expect(streamed.headers.get('ratelimit-remaining')).toBe('12');
  expect(await left(client.post(`${api.exports}/${id}/test`))).toBe(2);
  const refused = await client.post(`${api.exports}/${id}/test`);
  expect(refused.status).toBe(429);
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(await left(client.get(api.exports))).toBe(1);
  expect(await left(client.get(api.exports))).toBe(0);
  expect((await client.get(api.exports)).status).toBe(429);
});

test('a request that costs more than a window gets the whole window', async () => {
  const client = await open({ perMinute: 5, perHour: 60 }, await newKey());
  const path = `${api.exports}/00000000-0000-0000-0000-000000000000/preview`;
  expect([(await client.get(path)).status, (await client.get(path)).status]).toEqual([404, 429]);
});
