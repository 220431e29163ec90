import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Foundation, openFoundation } from '../../../src/main/foundation.ts';
import type { Part } from '../../../src/main/run-process.ts';
import { startWorker } from '../../../src/main/worker-process.ts';
import { ensureEventsTable } from '../../../src/rows/sources/index.ts';
import { checkLateness } from '../../../src/state/store/exports/export-states.ts';
import { createWebhook, senderTo } from '../../support/notified.ts';
import { queueBackends, type TestQueueBackend } from '../../support/queue-backends.ts';
import { startReceiver } from '../../support/receiver.ts';
import { hourMs, openRunSide } from '../../support/run-side.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

let backend: TestQueueBackend;
const receiver = useStage(startReceiver);
let foundation: Foundation;
let worker: Part | undefined;

const side = useStage(openRunSide);
beforeAll(async () => {
  const [postgres] = queueBackends;
  if (!postgres) throw new Error('no queue');
  backend = await postgres.open(side.url);
  await ensureEventsTable(side.url);
  const config = side.workerConfig({
    ...backend.env,
    ALLOWED_PRIVATE_ENDPOINTS: receiver.endpoint,
  });
  foundation = await openFoundation(config, 'worker');
});
afterAll(async () => {
  await worker?.close();
  await foundation?.close();
  await backend?.stop();
});

it('a worker that comes back finds what is late, says so, and says that it is on time again', async () => {
  const { context } = foundation;
  await createWebhook({ ...side, context }, senderTo([receiver]), receiver, {
    events: ['export.late', 'export.on_time'],
  });
  // Nothing ran for five hours: its ticks are due, and its data is late.
  const { id } = await side.createExport({ createdMsAgo: 5 * hourMs });
  await side.sql`update batch_exports set created_at = now() - interval '5 hours' where id = ${id}`;
  // The ticks come once the lateness was seen: a fast worker would be on time before it looks.
  const moveTicks = (by: string) =>
    side.db.query(`update batch_exports set next_tick_at = next_tick_at ${by} where id = $1`, [id]);
  await moveTicks(`+ interval '1 day'`);
  worker = await startWorker(foundation);
  await until(() => receiver.received.length === 1, { timeoutMs: 60_000, message: 'it is late' });
  await moveTicks(`- interval '1 day'`);
  // The worker looks once a minute. Another one may look earlier.
  await until(
    async () => {
      await checkLateness(side.db);
      return receiver.received.length === 2;
    },
    { timeoutMs: 60_000, message: 'it is on time' },
  );
  const sent = receiver.received.map(({ body }) => JSON.parse(body) as { type: string });
  expect(sent.map(({ type }) => type)).toEqual(['export.late', 'export.on_time']);
  await until(async () => {
    const { registry } = foundation.metrics;
    const counted = await registry.getSingleMetricAsString('sluice_notifications_total');
    return counted.includes('sluice_notifications_total{kind="webhook",result="delivered"} 2');
  });
});
