import { request } from 'node:http';
import { expect, test } from 'vitest';
import { readConfig } from '../../src/foundation/config/config.ts';
import { type ApiUnderTest, startApiUnderTest } from '../support/api-under-test.ts';
import { exportBody } from '../support/batch-export-bodies.ts';

/** The `next` of a list, asked for under another Host than that of the address. */
function nextUnder(
  { baseUrl, tenant }: ApiUnderTest,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const asked = request(
      new URL(`${path}?limit=1`, baseUrl),
      { headers: { authorization: `Bearer ${tenant.key}`, ...headers } },
      async (response) => {
        const chunks: Buffer[] = [];
        for await (const chunk of response) chunks.push(chunk as Buffer);
        resolve(String(JSON.parse(Buffer.concat(chunks).toString()).next));
      },
    );
    asked.on('error', reject).end();
  });
}

async function withTwoExports<T>(
  changes: Parameters<typeof startApiUnderTest>[0],
  work: (api: ApiUnderTest, exports: string) => Promise<T>,
): Promise<T> {
  const api = await startApiUnderTest(changes);
  try {
    const exports = `${api.project}/batch_exports`;
    await api.client.post(exports, exportBody());
    await api.client.post(exports, exportBody());
    return await work(api, exports);
  } finally {
    await api.stop();
  }
}

const foreignHosts = [
  'evil.example',
  'evil.example:443',
  '203.0.113.9',
  'user@evil.example',
  'localhost.evil.example',
  'localhost@evil.example',
];

test.each(foreignHosts)('links do not lead to the Host %s', async (host) => {
  await withTwoExports({}, async (api, exports) => {
    const next = await nextUnder(api, exports, { host });
    expect(next).toBe(`${api.baseUrl}${exports}?limit=1&offset=1`);
  });
});

test('links have the loopback name that the client used', async () => {
  await withTwoExports({}, async (api, exports) => {
    const next = await nextUnder(api, exports, { host: 'localhost:9999' });
    expect(next).toBe(`http://localhost:9999${exports}?limit=1&offset=1`);
  });
});

test('links begin with PUBLIC_URL, whatever Host and proxy say', async () => {
  const { PUBLIC_URL: publicUrl } = readConfig({ PUBLIC_URL: 'https://sluice.example/' });
  await withTwoExports({ publicUrl, trustProxy: 1 }, async (api, exports) => {
    const next = await nextUnder(api, exports, {
      host: 'evil.example',
      'x-forwarded-host': 'evil.example',
    });
    expect(next).toBe(`https://sluice.example${exports}?limit=1&offset=1`);
  });
});

test('a proxy cannot put credentials or a path into a link', async () => {
  await withTwoExports({ trustProxy: 1 }, async (api, exports) => {
    const next = await nextUnder(api, exports, { 'x-forwarded-host': 'x@evil.example/path' });
    expect(next).toBe(`${api.baseUrl}${exports}?limit=1&offset=1`);
  });
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
