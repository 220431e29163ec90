import { once } from 'node:events';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { beforeAll, expect, test } from 'vitest';
import { readConfig } from '../../src/foundation/config/config.ts';
import type { ApiOptions } from '../../src/service/api/options.ts';
import { startApiBeside, useApi } from '../support/api-under-test.ts';
import { inTest } from '../support/use-stage.ts';

const api = useApi();
beforeAll(async () => {
  await api.create();
  await api.create();
});

/** Lists one of two exports under other headers. @returns `next`, with OWN for the address of the API */
async function nextUnder(
  headers: Readonly<Record<string, string>>,
  changes?: Partial<ApiOptions>,
): Promise<string> {
  const { baseUrl } = changes
    ? (await inTest(startApiBeside(api, () => changes))).client
    : api.client;
  const asked = request(new URL(`${api.exports}?limit=1`, baseUrl), {
    headers: { authorization: `Bearer ${api.tenant.key}`, ...headers },
  });
  const [response] = await once(asked.end(), 'response');
  return String(JSON.parse(await text(response)).next).replace(baseUrl, 'OWN');
}

const rest = () => `${api.exports}?limit=1&offset=1`;

test.each([
  'evil.example',
  'evil.example:443',
  '203.0.113.9',
  'user@evil.example',
  'localhost.evil.example',
  'localhost@evil.example',
])('links do not lead to the Host %s', async (host) => {
  expect(await nextUnder({ host })).toBe(`OWN${rest()}`);
});

test('links have the loopback name that the client used', async () => {
  const next = await nextUnder({ host: 'localhost:9999' });
  expect(next).toBe(`http://localhost:9999${rest()}`);
});

test('links begin with PUBLIC_URL, whatever Host and proxy say', async () => {
  const { PUBLIC_URL: publicUrl } = readConfig({ PUBLIC_URL: 'https://sluice.example/' });
  const headers = { host: 'evil.example', 'x-forwarded-host': 'evil.example' };
  const next = await nextUnder(headers, { publicUrl, trustProxy: 1 });
  expect(next).toBe(`https://sluice.example${rest()}`);
});

test('a proxy cannot put credentials or a path into a link', async () => {
  const headers = { 'x-forwarded-host': 'x@evil.example/path' };
  expect(await nextUnder(headers, { trustProxy: 1 })).toBe(`OWN${rest()}`);
});

test.each([
  'sluice.example',
  'ftp://sluice.example',
  'https://user@sluice.example',
  'https://a?b',
  'https://a/sluice',
  'https://a//',
])('PUBLIC_URL cannot be %s', (value) => {
  expect(() => readConfig({ PUBLIC_URL: value })).toThrow(/PUBLIC_URL must be/);
});
