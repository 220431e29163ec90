import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { createTestDatabase } from '../support/database.ts';
import { startSluice } from '../support/processes.ts';

/** A port that is free now. */
function findPort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const bound = server.address();
      server.close(() => resolve(typeof bound === 'object' ? (bound?.port ?? 0) : 0));
    });
  });
}

test('the API serves metrics without a key at METRICS_PORT alone', async () => {
  const database = await createTestDatabase();
  const metricsPort = await findPort();
  const api = startSluice('main/api.js', [], {
    env: { DATABASE_URL: database.url, PORT: '0', METRICS_PORT: String(metricsPort) },
  });
  try {
    const [, address] = /^ready (\S+)$/.exec(await api.waitForLine(/^ready /)) ?? [];
    const metrics = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
    expect(metrics.status).toBe(200);
    expect(await metrics.text()).toContain('sluice_');
    expect((await fetch(`${address}/metrics`)).status).toBe(401);
  } finally {
    api.kill();
    await api.waitForExit();
    await database.drop();
  }
});
