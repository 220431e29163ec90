import { afterEach, expect, test } from 'vitest';
import { serveWorkerHealth, type WorkerHealth } from '../../../src/main/worker-health.ts';
import { createMetrics } from '../../../src/foundation/telemetry/metrics.ts';
import { checkReadiness } from '../../../src/service/use-cases/installation/check-readiness.ts';

let health: WorkerHealth | null = null;
afterEach(async () => {
  await health?.close();
  health = null;
});

async function ask(
  path: string,
  faults: { postgres?: string; queue?: string; era?: string } = {},
): Promise<{ status: number; text: string }> {
  const metrics = createMetrics();
  metrics.attempts.inc({ end: 'completed' }, 3);
  health = await serveWorkerHealth({
    host: '127.0.0.1',
    port: 0,
    metrics: metrics.registry,
    readiness: () =>
      checkReadiness({
        databaseFault: async () => faults.postgres ?? null,
        queueFault: async () => faults.queue ?? null,
        holdReason: async () => faults.era ?? null,
      }),
  });
  const response = await fetch(health.address + path);
  return { status: response.status, text: await response.text() };
}

test('a worker that runs is live, whatever is unreachable', async () => {
  expect(await ask('/livez', { postgres: 'unreachable' })).toMatchObject({ status: 200 });
});

test('a worker is ready with Postgres and the queue, degraded without the queue, unavailable without Postgres', async () => {
  const answersOf = async (faults: { postgres?: string; queue?: string; era?: string }) => {
    const { status, text } = await ask('/readyz', faults);
    await health?.close();
    return [status, JSON.parse(text)];
  };
  expect(await answersOf({})).toEqual([
    200,
    { status: 'ok', checks: { postgres: 'ok', queue: 'ok', era: 'ok' } },
  ]);
  expect(await answersOf({ queue: 'away' })).toEqual([
    200,
    { status: 'degraded', checks: { postgres: 'ok', queue: 'away', era: 'ok' } },
  ]);
  expect(await answersOf({ era: 'a copy' })).toEqual([
    200,
    { status: 'degraded', checks: { postgres: 'ok', queue: 'ok', era: 'a copy' } },
  ]);
  expect(await answersOf({ postgres: 'unreachable' })).toEqual([
    503,
    { status: 'unavailable', checks: { postgres: 'unreachable', queue: 'ok', era: 'ok' } },
  ]);
});

test('a worker reports what it counted', async () => {
  const { status, text } = await ask('/metrics');
  expect(status).toBe(200);
  expect(text).toContain('sluice_attempts_total{end="completed"} 3');
});

test('a worker answers nothing else', async () => {
  expect(await ask('/api/openapi.json')).toMatchObject({ status: 404 });
});
