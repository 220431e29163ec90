import { expect, test } from 'vitest';
import { buildApi } from '../../../src/api/build-api.ts';
import { openDatabase } from '../../../src/store/database.ts';
import { createApiClient } from '../../support/api-client.ts';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { createKey } from '../../support/tenants.ts';
import { testApiOptions } from '../../support/test-api-options.ts';

const rateLimit = { perMinute: 50, perHour: 60 };

test('a key may send exactly its limit over all API processes, and then learns when to retry', async () => {
  const api = await startApiUnderTest({ rateLimit });
  const otherDb = openDatabase({
    connectionString: api.databaseUrl,
    applicationName: 'other-process',
    maxConnections: 5,
    onError: () => {},
  });
  const other = await buildApi(testApiOptions(otherDb, api.databaseUrl, { rateLimit }));
  try {
    const otherUrl = await other.listen({ port: 0, host: '127.0.0.1' });
    const path = `${api.project}/batch_exports`;
    const clients = [api.client, createApiClient(otherUrl, api.tenant.key)];
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
    const { key } = await createKey(api.db, { organizationId: api.tenant.organizationId });
    const fresh = await api.client.withKey(key).get(path);
    expect(fresh.status).toBe(200);
    expect(fresh.headers.get('ratelimit-limit')).toBe('50');
    expect(fresh.headers.get('ratelimit-remaining')).toBe('49');
    expect(Number(fresh.headers.get('ratelimit-reset'))).toBeLessThanOrEqual(60);
    expect(fresh.headers.get('ratelimit-policy')).toBe('50;w=60, 60;w=3600');

    // A minute later there is the rest of the hour.
    await api.db.query(
      `update rate_limits set minute_started_at = now() - interval '61 seconds' where key_id = $1`,
      [api.tenant.keyId],
    );
    const third = await buildApi(testApiOptions(otherDb, api.databaseUrl, { rateLimit }));
    const later = createApiClient(
      await third.listen({ port: 0, host: '127.0.0.1' }),
      api.tenant.key,
    );
    const next = await Promise.all(Array.from({ length: 20 }, () => later.get(path)));
    await third.close();
    expect(next.filter(({ status }) => status === 200)).toHaveLength(10);
    const hourly = next.find(({ status }) => status === 429);
    expect(Number(hourly?.headers.get('retry-after'))).toBeGreaterThan(60);
  } finally {
    await other.close();
    await otherDb.close();
    await api.stop();
  }
});
