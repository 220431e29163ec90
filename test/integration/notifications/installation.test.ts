/** What an operator hears of: all customers, intervals without data, data that are late, and workers that are gone. */

import { afterEach, expect, onTestFinished, test } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { createLogger } from '../../../src/foundation/telemetry/logger.ts';
import { createMetrics } from '../../../src/foundation/telemetry/metrics.ts';
import { watchWorkers } from '../../../src/main/watch-workers.ts';
import { heal } from '../../../src/service/use-cases/healing/heal.ts';
import { checkCompleteness } from '../../../src/state/store/exports/export-states.ts';
import { installationId } from '../../../src/state/store/tenants/tenants.ts';
import { endAlarm, raiseAlarm } from '../../../src/state/store/notifications/group-events.ts';
import { reportWorker } from '../../../src/state/store/runs/workers.ts';
import { deliveriesOf, openCouriers, useNotified } from '../../support/notified.ts';
import { createExportOfThePast } from '../../support/run-side.ts';
import { createTenant } from '../../support/tenants.ts';
import { until } from '../../support/until.ts';

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
