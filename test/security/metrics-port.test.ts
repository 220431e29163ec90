import { expect, test } from 'vitest';
import { createTestDatabase } from '../support/database.ts';
import { findFreePort } from '../support/free-port.ts';
import { startBundled } from '../support/processes.ts';
import { checkMetrics, hasPromtool, promtoolNote } from '../support/promtool.ts';
import { until } from '../support/until.ts';

test('the API serves metrics without a key at METRICS_PORT alone', async () => {
  const database = await createTestDatabase();
  const metricsPort = await findFreePort();
  const api = startBundled('main/api.js', [], {
    env: { DATABASE_URL: database.url, PORT: '0', METRICS_PORT: String(metricsPort) },
  });
  try {
    const [, address] = /^ready (\S+)$/.exec(await api.waitForLine(/^ready /)) ?? [];
    const metrics = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
    expect(metrics.status).toBe(200);
    // Without a worker.
    expect(await metrics.text()).toMatch(/^sluice_worker_capacity 0$/m);
    expect((await fetch(`${address}/metrics`)).status).toBe(401);
  } finally {
    api.kill();
    await api.waitForExit();
    await database.drop();
  }
});

test.runIf(hasPromtool)(`promtool reads what API and worker answer${promtoolNote}`, async () => {
  const database = await createTestDatabase();
  const [ofApi, ofWorker] = [await findFreePort(), await findFreePort()];
  const env = { DATABASE_URL: database.url, REDIS_URL: '', PORT: '0' };
  const api = startBundled('main/api.js', [], { env: { ...env, METRICS_PORT: String(ofApi) } });
  try {
    await api.waitForLine(/^ready /);
    const worker = startBundled('main/worker.js', [], {
      env: { ...env, WORKER_PORT: String(ofWorker) },
    });
    await until(() => worker.output().includes('worker started'), {
      message: () => `a worker starts:\n${worker.output()}`,
    });
    for (const port of [ofApi, ofWorker]) {
      const answer = await fetch(`http://127.0.0.1:${port}/metrics`);
      expect(answer.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
      const text = await answer.text();
      expect(text).toContain('sluice_failing_exports{fault="internal"} 0');
      expect(checkMetrics(text)).toEqual([]);
    }
    worker.kill();
    await worker.waitForExit();
  } finally {
    api.kill();
    await api.waitForExit();
    await database.drop();
  }
});
