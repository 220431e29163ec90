import { describe, expect, test, vi } from 'vitest';
import { networkOf } from '../../src/service/api/connections.ts';
import { mintApiKey } from '../../src/foundation/security/api-keys.ts';
import { createKey } from '../support/tenants.ts';
import { startApiBeside, useApi } from '../support/api-under-test.ts';
import { useEach } from '../support/use-stage.ts';

const allowed = 10;
const api = useApi();

describe('an address that presents wrong keys', () => {
  /** Each counts the wrong keys of its own. */
  const beside = useEach(() => startApiBeside(api, () => ({ failedKeysPerMinute: allowed })));

  const askWith = (key: string) => beside.client.withKey(key).get(api.exports);

  /** As many wrong keys as the address may present, and more. */
  async function exhaust(): Promise<void> {
    for (let n = 0; n < allowed + 5; n += 1) await askWith(mintApiKey());
  }

  test('is asked to wait once its allowance is used up, which keys of any form use, and valid ones do not', async () => {
    for (let n = 0; n < allowed * 2; n += 1) {
      const { key } = await createKey(api.db, { organizationId: api.tenant.organizationId });
      expect((await askWith(key)).status).toBe(200);
    }
    const wrong = (n: number) => (n % 2 === 0 ? 'guess' : mintApiKey());
    for (let n = 0; n < allowed; n += 1) expect((await askWith(wrong(n))).status).toBe(401);
    const { status, headers, body } = await askWith(mintApiKey());
    expect(status).toBe(429);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    expect(body).toMatchObject({ type: 'throttled_error', code: 'throttled', attr: null });
  });

  test('costs the database no query per request', async () => {
    await exhaust();
    const query = vi.spyOn(api.db, 'query');
    const answers = await Promise.all(Array.from({ length: 200 }, () => askWith(mintApiKey())));
    const statuses = answers.map(({ status }) => status).filter((status) => status !== 429);
    // The allowance comes back with time, on a slow machine also while these are answered: not in a minute.
    expect(statuses.every((status) => status === 401)).toBe(true);
    expect(statuses.length).toBeLessThan(allowed);
    // One look-up for all that wait, every 200 ms; a few, however slow the machine is.
    expect(query.mock.calls.length).toBeLessThan(40);
    query.mockRestore();
  });

  test('does not stop valid keys, whether they were used before or not, and keeps none that was revoked', async () => {
    const { organizationId } = api.tenant;
    const { key: fresh } = await createKey(api.db, { organizationId });
    const revoked = await createKey(api.db, { organizationId });
    for (const key of [api.tenant.key, revoked.key]) expect((await askWith(key)).status).toBe(200);
    await api.db.query('update api_keys set revoked_at = now() where id = $1', [revoked.apiKey.id]);
    await exhaust();
    expect((await askWith(mintApiKey())).status).toBe(429);
    expect((await askWith(api.tenant.key)).status).toBe(200);
    expect((await askWith(fresh)).status).toBe(200);
    expect((await askWith(revoked.key)).status).toBe(401);
    expect((await askWith(revoked.key)).status).toBe(429);
  });
});

test('the addresses of one IPv6 network count as one, and IPv4 is seen through its IPv6 form', () => {
  expect(networkOf('2001:db8:1:2::1')).toBe(networkOf('2001:0db8:1:2:ffff:ffff:ffff:ffff'));
  expect(networkOf('2001:db8:1:2::1')).not.toBe(networkOf('2001:db8:1:3::1'));
  expect(networkOf('::1')).toBe('0:0:0:0::/64');
  expect(networkOf('fe80::1%eth0')).toBe(networkOf('fe80::2'));
  expect(networkOf('::ffff:192.0.2.1')).toBe('192.0.2.1');
  expect(networkOf('192.0.2.1')).not.toBe(networkOf('192.0.2.2'));
});
