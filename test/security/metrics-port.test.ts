import { expect, test } from 'vitest';
import { createTestDatabase } from '../support/database.ts';
import { findFreePort } from '../support/free-port.ts';
import { startBundled } from '../support/processes.ts';
import { checkMetrics, hasPromtool, promtoolNote } from '../support/promtool.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';

const database = useStage(createTestDatabase);

test(`the API serves metrics without a key at METRICS_PORT alone, which promtool reads${promtoolNote}`, async () => {
  const env = { DATABASE_URL: database.url, REDIS_URL: '', PORT: '0' };
  const [ofApi, ofWorker] = [await findFreePort(), await findFreePort()];
  const metricsAt = (port: number) => fetch(`http://127.0.0.1:${port}/metrics`);
  const api = startBundled('main/api.js', [], { env: { ...env, METRICS_PORT: String(ofApi) } });
  const [, address] = /^ready (\S+)$/.exec(await api.waitForLine(/^ready /)) ?? [];
  const metrics = await metricsAt(ofApi);
  expect(metrics.status).toBe(200);
  // Without a worker.
  expect(await metrics.text()).toMatch(/^sluice_worker_capacity 0$/m);
  expect((await fetch(`${address}/metrics`)).status).toBe(401);
  if (hasPromtool) {
    const worker = startBundled('main/worker.js', [], {
      env: { ...env, WORKER_PORT: String(ofWorker) },
    });
    await until(() => worker.output().includes('worker started'), {
      message: () => `a worker starts:\n${worker.output()}`,
    });
    for (const port of [ofApi, ofWorker]) {
      const answer = await metricsAt(port);
      expect(answer.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
      const text = await answer.text();
      expect(text).toContain('sluice_failing_exports{fault="internal"} 0');
      expect(checkMetrics(text)).toEqual([]);
    }
    worker.kill();
    await worker.waitForExit();
  }
  api.kill();
  await api.waitForExit();
});
