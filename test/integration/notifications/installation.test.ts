/** What an operator hears of: all customers, intervals without data, data that are late, and workers that are gone. */

import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  onTestFinished,
  test,
} from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { createLogger } from '../../../src/foundation/telemetry/logger.ts';
import { createMetrics } from '../../../src/foundation/telemetry/metrics.ts';
import { watchWorkers } from '../../../src/main/watch-workers.ts';
import { heal } from '../../../src/service/use-cases/healing/heal.ts';
import {
  checkCompleteness,
  checkLateness,
} from '../../../src/state/store/exports/export-states.ts';
import { installationId } from '../../../src/state/store/tenants/tenants.ts';
import { endAlarm, raiseAlarm } from '../../../src/state/store/notifications/group-events.ts';
import { reportWorker } from '../../../src/state/store/runs/workers.ts';
import {
  createWebhook,
  deliveriesOf,
  openCouriers,
  senderTo,
  useNotified,
} from '../../support/notified.ts';
import {
  createExportOfThePast,
  exportOfThePast,
  type ExportWanted,
  hourMs,
  openRunSide,
} from '../../support/run-side.ts';
import { createTenant } from '../../support/tenants.ts';
import { until } from '../../support/until.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { pauseExport } from '../../../src/service/use-cases/exports/pause-export.ts';
import { disabledCodes } from '../../../src/foundation/domain/batch-export.ts';
import { useApi } from '../../support/api-under-test.ts';
import { isNightly } from '../../support/nightly.ts';
import { storeExport } from '../../support/store-export.ts';
import { type Foundation, openFoundation } from '../../../src/main/foundation.ts';
import type { Part } from '../../../src/main/run-process.ts';
import { startWorker } from '../../../src/main/worker-process.ts';
import { ensureEventsTable } from '../../../src/rows/sources/index.ts';
import { queueBackends, type TestQueueBackend } from '../../support/queue-backends.ts';
import { startReceiver } from '../../support/receiver.ts';
import { useStage } from '../../support/use-stage.ts';

const env = { PUBLIC_URL: 'https://sluice.example.com' };
const { side, receiver, sender, types, webhook } = useNotified({ secondOpinionMs: 0 }, env);
afterEach(() => side.sql`update batch_exports set deleted_at = now()`);

const ofInstallation = () => webhook({ organizationId: installationId });

test('a target of the installation hears of every organization, with all that a person needs', async () => {
  await ofInstallation();
  const other = await createTenant(side.db);
  const denied = new SluiceError('destination.access_denied');
  for (const teamId of [side.teamId, other.projectIds[0]]) {
    const { runIds } = await side.exportWithRuns(1, teamId);
    await side.failAttempt(runIds[0] ?? '', denied);
  }
  expect(await types()).toEqual(['export.failing', 'export.failing']);
  const couriers = openCouriers(side);
  await couriers.add(sender()).collect();
  await until(() => receiver.received.length === 2);
  await couriers.closeAll();
  const bodies = receiver.received.map(({ body }) => JSON.parse(body));
  expect(bodies.map((body) => body.organization_id).toSorted()).toEqual(
    [side.tenant.organizationId, other.organizationId].toSorted(),
  );
  expect(bodies[0].data).toMatchObject({
    organization: { name: 'Acme' },
    project: { name: 'Website', tenant_key: expect.any(String) },
    export: { name: 'An export' },
    turn: 'customer',
    since: expect.stringMatching(/Z$/),
    missing_intervals: 1,
    remedy: expect.stringContaining('Grant the credentials'),
    link: expect.stringMatching(/^https:\/\/sluice\.example\.com\/console\/#\/\d+\/exports\//),
  });
});

test('a target of the installation hears of causes: one message per customer, or one in all of what is not theirs', async () => {
  await ofInstallation();
  const other = await createTenant(side.db);
  const ids: string[] = [];
  for (const teamId of [side.teamId, other.projectIds[0]]) {
    const { id } = await createExportOfThePast({ ...side, teamId }, {});
    ids.push(id);
  }
  const open = async (code: string) => {
    await side.sql`with hollow as (
         insert into holes (export_id, data_interval_start, data_interval_end, heals_since, next_try_at)
         select id, '2024-03-01T00:00:00Z', '2024-03-01T01:00:00Z', now(), now() + interval '1 hour' from batch_exports
           where id = any (${ids}::uuid[])
         on conflict do nothing
       )
       update batch_exports set failing_since = now() - interval '2 minutes', failing_code = ${code},
         announced_code = null where id = any (${ids}::uuid[])`;
    await heal(side.context);
  };
  await open('destination.bucket_not_found');
  const [one, two, ...none] = (await deliveriesOf(side.db)).map(({ type, facts }) => [type, facts]);
  expect(none).toEqual([]);
  for (const each of [one, two]) {
    expect(each).toMatchObject([
      'healing.started',
      { organization: { name: 'Acme' }, turn: 'customer', export_count: 1, interval_count: 1 },
    ]);
  }
  await open('source.unavailable');
  const [, , third, ...more] = (await deliveriesOf(side.db)).map(({ type, facts }) => [
    type,
    facts,
  ]);
  expect(more).toEqual([]);
  expect(third).toMatchObject(['healing.started', { turn: 'source', export_count: 2 }]);
  expect(third?.[1]).not.toHaveProperty('organization');
});

// Another process has looked before, and says only now what it saw.
test('no alarm is raised that a worker has ended meanwhile', async () => {
  const alarms = () => side.sql`select from installation where no_workers_since is not null`;
  await side.sql`delete from workers`;
  await raiseAlarm(side.db);
  expect(await alarms()).toHaveLength(1);
  await reportWorker(side.db, 'w', 1);
  expect(await endAlarm(side.db)).toBe(true);
  await raiseAlarm(side.db);
  expect(await alarms()).toEqual([]);
  await side.sql`delete from workers`;
});

test('an export that failed and then works has an event for its holes, after an hour and once', async () => {
  await webhook({ events: ['export.incomplete', 'export.complete'] });
  const { id, runIds } = await side.exportWithRuns(3);
  const denied = new SluiceError('destination.access_denied');
  for (const runId of runIds.slice(0, 2)) await side.failAttempt(runId, denied);
  await side.completeRuns(runIds[2]);
  expect(await checkCompleteness(side.db)).toBe(0);
  await side.sql`update holes set noted_at = noted_at - interval '61 minutes'`;
  expect(await Promise.all([checkCompleteness(side.db), checkCompleteness(side.db)])).toContain(1);
  expect(await checkCompleteness(side.db)).toBe(0);
  const [event] = await deliveriesOf(side.db);
  expect(event).toMatchObject({
    type: 'export.incomplete',
    facts: { missing_intervals: 2, code: 'destination.access_denied' },
  });
  await side.sql`delete from holes where export_id = ${id}`;
  await checkCompleteness(side.db);
  expect(await types()).toEqual(['export.incomplete', 'export.complete']);
});

test('if no worker is alive, the API process logs it, and sends the event and what else waits', async () => {
  await ofInstallation();
  const before = receiver.received.length;
  const lines: { level: string; msg: string }[] = [];
  const logger = createLogger('info', {}, { write: (text) => void lines.push(JSON.parse(text)) });
  const foundation = { context: side.context, logger, metrics: createMetrics() };
  const timing = { everyMs: 50, graceMs: 0, sayEveryMs: 60_000 };
  const [one, two] = [1, 2].map(() => watchWorkers(foundation, sender(), timing));
  onTestFinished(async () => {
    await one?.close();
    await two?.close();
  });
  await until(() => receiver.received.length > before);
  expect(JSON.parse(receiver.received[before]?.body ?? '')).toMatchObject({
    type: 'installation.no_workers',
    organization_id: installationId,
    data: {
      ...{ turn: 'ours', remedy: 'Start a worker.', since: expect.any(String) },
      link: 'https://sluice.example.com/console/',
    },
  });
  const dead = lines.filter(({ msg }) => msg.startsWith('No worker has reported'));
  // One line of each process, not one of each look.
  expect(dead.length).toBeLessThanOrEqual(2);
  expect(dead[0]?.level).toBe('error');
  await reportWorker(side.db, 'w', 1);
  await until(async () => (await types()).includes('installation.no_workers_over'));
  expect(await types()).toEqual(['installation.no_workers', 'installation.no_workers_over']);
});

const minuteMs = 60_000;

/** An export that was created `createdMsAgo` before, and has been as long without data. */
async function createLate(wanted: ExportWanted = {}): Promise<string> {
  const { id } = await side.createExport(wanted);
  await side.sql`
    update batch_exports set created_at = now() - ${wanted.createdMsAgo ?? 0} * interval '1 ms'
      where id = ${id}`;
  return id;
}

/** Seconds; null: not late. */
const lateness = (id: string) =>
  side.sql.value<number | null>`
    select extract(epoch from now() - late_since)::float8 from batch_exports where id = ${id}`;

describe('an export without a deadline', () => {
  beforeEach(() => webhook());

  it('is late once its data is older, since the moment when it became so', async () => {
    const late = await createLate({ createdMsAgo: 300 * minuteMs });
    const fresh = await createLate({ createdMsAgo: 80 * minuteMs });
    const promised = await createLate({ createdMsAgo: 300 * minuteMs, deadlineMinutes: 600 });
    // No worker checked for hours: the moment is that of two intervals and six minutes, not of the check.
    expect(await checkLateness(side.db)).toBe(1);
    expect(await lateness(late)).toBeGreaterThan(174 * 60 - 1);
    expect(await lateness(late)).toBeLessThan(174 * 60 + 60);
    expect([await lateness(fresh), await lateness(promised)]).toEqual([null, null]);
    expect([await checkLateness(side.db), await types()]).toEqual([0, ['export.late']]);
    const [event] = await deliveriesOf(side.db);
    expect(event?.facts).toMatchObject({
      high_water_mark: null,
      late_since: expect.stringMatching(/Z$/),
    });
  });

  it('is on time again once an interval completes, not before', async () => {
    const id = await createLate({ createdMsAgo: 240 * minuteMs });
    await checkLateness(side.db);
    await side.decide();
    const runs = await side.listRuns(id);
    await side.completeRuns(runs[0]?.id);
    await checkLateness(side.db);
    expect(await types()).toEqual(['export.late']);
    await side.completeRuns(...runs.slice(1).map((run) => run.id));
    await checkLateness(side.db);
    expect(await lateness(id)).toBeNull();
    expect(await types()).toEqual(['export.late', 'export.on_time']);
  });

  it('is noticed once by many workers that check at the same time', async () => {
    await createLate({ createdMsAgo: 300 * minuteMs });
    await side.db.transaction(async (tx) => {
      expect(await checkLateness(tx)).toBe(1);
      const others = await Promise.all([...Array(8)].map(() => checkLateness(side.db)));
      expect(others).toEqual(Array(8).fill(0));
    });
    expect([await checkLateness(side.db), await types()]).toEqual([0, ['export.late']]);
  });

  it('that a person paused is not late; one that Sluice paused is', async () => {
    const byPerson = await createLate({ createdMsAgo: 300 * minuteMs });
    await checkLateness(side.db);
    await pauseExport(side.context, side.actor, byPerson);
    await checkLateness(side.db);
    expect(await lateness(byPerson)).toBeNull();
    // It is not on time either.
    expect(await types()).toEqual(['export.late']);
    const bySluice = await createLate({ createdMsAgo: 300 * minuteMs });
    await side.sql`
      update batch_exports set paused = true, paused_reason = 'failures' where id = ${bySluice}`;
    await checkLateness(side.db);
    expect(await lateness(bySluice)).not.toBeNull();
  });

  it('is not late after its end or before its start', async () => {
    const now = await readNow(side.db);
    const old = 300 * minuteMs;
    const ended = await createLate({ createdMsAgo: old, endAt: now - 250 * minuteMs });
    const future = await createLate({ createdMsAgo: old, startAt: now + minuteMs });
    await checkLateness(side.db);
    expect([await lateness(ended), await lateness(future)]).toEqual([null, null]);
    expect(await types()).toEqual([]);
  });

  it('that is locked at this moment is left to the next check', async () => {
    const id = await createLate({ createdMsAgo: 300 * minuteMs });
    await side.db.transaction(async (tx) => {
      await tx.query('select from batch_exports where id = $1 for update', [id]);
      expect(await checkLateness(side.db)).toBe(0);
    });
    expect(await checkLateness(side.db)).toBe(1);
  });
});

describe('disabled tenants', () => {
  const api = useApi();

  test('an operator who disables a tenant alerts no target, and a pause by Sluice does', async () => {
    const operator = await api.asOperator();
    const target = { url: 'https://example.com/hooks' };
    expect((await operator.post('/api/admin/notification_targets', target)).status).toBe(201);
    expect((await api.post(`${api.project}/notification_targets`, target)).status).toBe(201);
    const side = { db: api.db, teamId: api.teamId };
    await storeExport(api.db, await exportOfThePast(side));
    const events = () =>
      api.sql`select distinct on (event_id) type, facts from notification_deliveries`;
    for (const at of [`organizations/${api.tenant.organizationId}`, `projects/${api.teamId}`]) {
      await operator.patch(`/api/admin/${at}`, { disabled: true });
      // The trigger names these reasons.
      expect(disabledCodes).toContain(await api.sql.value`select paused_code from batch_exports`);
      expect(await events()).toEqual([]);
      await operator.patch(`/api/admin/${at}`, { disabled: false });
    }
    await api.sql`update batch_exports set paused = true, paused_reason = 'failures'`;
    expect(await events()).toMatchObject([
      { type: 'export.paused', facts: { reason: 'failures' } },
    ]);
  });
});

describe.runIf(isNightly)('a worker', () => {
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

  it('that comes back finds what is late, says so, and says that it is on time again', async () => {
    const { context } = foundation;
    await createWebhook({ ...side, context }, senderTo([receiver]), receiver, {
      events: ['export.late', 'export.on_time'],
    });
    // Nothing ran for five hours: its ticks are due, and its data is late.
    const { id } = await side.createExport({ createdMsAgo: 5 * hourMs });
    await side.sql`update batch_exports set created_at = now() - interval '5 hours' where id = ${id}`;
    // The ticks come once the lateness was seen: a fast worker would be on time before it looks.
    const moveTicks = (by: string) =>
      side.db.query(`update batch_exports set next_tick_at = next_tick_at ${by} where id = $1`, [
        id,
      ]);
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
});
