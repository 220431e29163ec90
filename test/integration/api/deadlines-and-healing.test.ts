import { beforeAll, describe, expect, test } from 'vitest';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { readExportHealth } from '../../../src/state/store/exports/export-health.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { cliEnv, runCli } from '../../support/cli.ts';
import { checkCompleteness } from '../../../src/state/store/exports/export-states.ts';
import type { ApiClient } from '../../support/api-client.ts';
import { openCouriers, senderTo } from '../../support/notified.ts';
import { startReceiver } from '../../support/receiver.ts';
import { exportOfThePast } from '../../support/run-side.ts';
import { storeExport } from '../../support/store-export.ts';
import type { Context } from '../../../src/service/use-cases/context.ts';
import { useStage } from '../../support/use-stage.ts';
import { until } from '../../support/until.ts';

const receiver = useStage(startReceiver);
let context: Context;
const api = useStage(() =>
  startApiUnderTest({ notifications: senderTo([receiver]) }, (options) => {
    context = options.context;
  }),
);

async function create(changes?: Parameters<typeof api.create>[0]) {
  const made = await api.create(changes);
  return { ...made, path: `${api.exports}/${made.id}` };
}

/** An interval that ended two hours ago without data, of an export that waits an hour before it tries again. */
async function breakInterval(exportId: unknown): Promise<void> {
  await api.sql`with failing as (
       update batch_exports set failing_since = now() - interval '1 hour', failing_code = 'destination.access_denied',
         failing_error = 'denied',
              heal_failures = 20, heal_after = now() + interval '1 hour' where id = ${exportId}
     ), ticked as (
       insert into ticks (export_id, tick_at, data_interval_start, data_interval_end, fate)
       select ${exportId}, at, at - interval '1 hour', at, 'ran' from (select date_trunc('hour', now(),
         'UTC') - interval '2 hours' as at) ended
     )
     insert into holes (export_id, data_interval_start, data_interval_end, heals_since, tries, next_try_at)
     select ${exportId}, at - interval '1 hour', at, now(), 3, now() + interval '1 hour' from (select date_trunc('hour',
       now(), 'UTC') - interval '2 hours' as at) ended`;
}

const isTriedNow = async (exportId: unknown) => {
  const [row] = await api.sql<{ due: boolean }>`
    select h.next_try_at <= now() and e.heal_after is null as due from holes h
      join batch_exports e on e.id = h.export_id where e.id = ${exportId}`;
  return row?.due;
};

test('healing is on for a week, can be set from 0 to 720 hours, and is shown with the next attempt and whose turn it is', async () => {
  const made = await create();
  expect(made).toMatchObject({ heal_for_hours: 168, healing: null });
  await breakInterval(made.id);
  const { body: shown } = await api.get(made.path);
  expect(shown.healing).toMatchObject({
    intervals: 1,
    code: 'destination.access_denied',
    turn: 'customer',
  });
  const coverage = (await api.get(`${made.path}/coverage`)).body;
  expect(coverage.healing).toEqual(shown.healing);
  expect(coverage.ranges).toContainEqual(expect.objectContaining({ state: 'healing' }));
  const counted = async () => (await readExportHealth(api.db)).healing;
  expect(shown.healing).toMatchObject({ next_probe_at: expect.any(String) });
  expect(await counted()).toBe(1);
  // Nothing is tried while a person's pause lasts.
  const paused = await api.post(`${made.path}/pause`, {});
  expect(paused.body.healing).toMatchObject({ intervals: 1, next_probe_at: null });
  const text = await runCli(['exports', 'get', String(made.id)], { env: cliEnv(api) });
  expect(text.out).toContain('1 interval, once the export is unpaused');
  expect(await counted()).toBe(0);
  await api.post(`${made.path}/unpause`, {});
  expect(await counted()).toBe(1);
  expect((await api.patch(made.path, { heal_for_hours: 720 })).body.heal_for_hours).toBe(720);
});

test('a larger number of hours heals what failed within them before, and nothing that a person must decide', async () => {
  const made = await create({ heal_for_hours: 0 });
  await api.sql`
    insert into runs (export_id, team_id, data_interval_start, data_interval_end, status, error_code, generation,
      finished_at)
     select e.id, e.team_id, date_trunc('hour', now(), 'UTC') - f.hours * interval '1 hour', date_trunc('hour', now(),
       'UTC') - (f.hours - 1) * interval '1 hour',
            f.status, f.code, f.generation, now()
       from batch_exports e, (values (2, 'FailedRetryable', 'destination.unavailable', 0), (3, 'Failed',
         'destination.access_denied', 0),
         (4, 'Failed', 'source.rows_missing', 0), (5, 'Failed', 'destination.access_denied', 0), (5, 'Cancelled',
           'run.cancelled', 1),
         (9, 'FailedRetryable', 'destination.unavailable', 0)) f (hours, status, code, generation) where e.id = ${made.id}`;
  await api.sql`
    update holes set noted_at = data_interval_end + interval '10 minutes' where export_id = ${made.id}`;
  const heals = async (heal_for_hours: number) => {
    const { status, body, text } = await api.patch(made.path, { heal_for_hours });
    expect(status, text).toBe(200);
    return (body.healing as { intervals: number } | null)?.intervals ?? 0;
  };
  expect([await heals(6), await heals(6), await heals(24)]).toEqual([2, 2, 3]);
});

test('an interval whose run failed and that heals is failed, and the blocker counts what heals', async () => {
  const made = await create();
  await breakInterval(made.id);
  await api.sql`insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at)
     select export_id, ${api.teamId}, 'Failed', data_interval_start, data_interval_end, now() from holes
       where export_id = ${made.id}`;
  const blocker = async () => (await api.get(`${made.path}/coverage`)).body.blocker;
  expect(await blocker()).toMatchObject({ state: 'failed', intervals: 1, healing: 1 });
  // It would have ended by now.
  await api.patch(made.path, { heal_for_hours: 1 });
  await api.sql`
    update holes set heals_since = now() - interval '2 hours' where export_id = ${made.id}`;
  expect(await blocker()).toMatchObject({ state: 'failed', healing: 0 });
});

const query = 'SELECT uuid FROM events';

test.each<[string, object, boolean]>([
  ['a change of the destination', { destination: { config: { region: 'eu-west-1' } } }, true],
  ['another secret', { destination: { config: { aws_secret_access_key: 'canary-other' } } }, true],
  ['a change of the query', { dsl_query: `${query} WHERE event = 'a'` }, true],
  ['transformations', { transformations: true }, true],
  ['another name', { name: 'Other' }, false],
  ['another deadline', { deadline_minutes: 30 }, false],
  ['the same destination and query', { ...exportBody(), dsl_query: query }, false],
])(
  '%s lets what heals be tried at once, if it can be the remedy',
  async (_what, change, isTried) => {
    const made = await create({ dsl_query: query });
    await breakInterval(made.id);
    const { status, text } = await api.patch(made.path, change);
    expect(status, text).toBe(200);
    expect(await isTriedNow(made.id)).toBe(isTried);
  },
);

test.each([
  ['pause', (path: string) => api.post(`${path}/pause`)],
  ['PATCH', (path: string) => api.patch(path, { paused: true })],
])(
  'a person takes over a pause that Sluice made (%s), so it does not end by itself',
  async (_by, pause) => {
    const made = await create();
    await api.sql`
      update batch_exports set paused = true, paused_reason = 'it failed', last_paused_at = now() - interval '1 hour'
        where id = ${made.id}`;
    const before = (await api.get(made.path)).body;
    expect(before.paused_reason).toBe('it failed');
    const { body } = await pause(made.path);
    expect(body).toMatchObject({ paused_reason: null, last_paused_at: before.last_paused_at });
    const { body: activity } = await api.get(`${made.path}/activity`);
    expect(activity.results[0]?.changes).toEqual([
      { field: 'paused_reason', before: 'it failed', after: null },
    ]);
  },
);

test('a test that passes lets what heals be tried at once; one of another config does not', async () => {
  const made = await create({ destination: { type: 'NoOp', config: {} } });
  await breakInterval(made.id);
  await api.post(`${made.path}/test`, { destination: { config: {} } });
  expect(await isTriedNow(made.id)).toBe(false);
  const { body } = await api.post(`${made.path}/test`);
  expect([body.passed, await isTriedNow(made.id)]).toEqual([true, true]);
});

test('a deadline is minutes after the end or a local time, and one kind replaces the other', async () => {
  const made = await create({ interval: 'day', deadline_at: '09:00', warn_minutes: 30 });
  expect(made).toMatchObject({ deadline_at: '09:00', deadline_minutes: null, warn_minutes: 30 });
  const minutes = (await api.patch(made.path, { deadline_minutes: 90 })).body;
  expect(minutes).toMatchObject({ deadline_at: null, deadline_minutes: 90, warn_minutes: 30 });
  const none = (await api.patch(made.path, { deadline_minutes: null })).body;
  expect(none).toMatchObject({ deadline_at: null, deadline_minutes: null, warn_minutes: null });
});

/** An export that works again may have lost intervals: whose turn that is says why they were lost, and in each place the same. */
describe('whose turn a lost interval is', () => {
  let operator: ApiClient;
  beforeAll(async () => {
    operator = await api.asOperator();
  });

  test.each([
    ['destination.bucket_not_found', 'customer'],
    ['source.unavailable', 'source'],
    ['internal.unexpected', 'ours'],
    // Retention has deleted the run, or a person has cancelled it.
    [null, 'customer'],
  ])('an interval that was lost by %s is the turn of: %s', async (code, turn) => {
    await api.sql`update batch_exports set deleted_at = now()`;
    const [teamId] = api.tenant.projectIds;
    const created = await exportOfThePast({ db: api.db, teamId }, {});
    await storeExport(api.db, created);
    await api.sql`
      insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at, error_code)
     values (${created.id}, ${teamId}, 'Failed', '2024-03-01', '2024-03-01 01:00', now(), ${code})`;
    // It works again, and what was lost is still lost.
    await api.sql`
      update batch_exports set failing_since = null, failing_code = null, failing_error = null
        where id = ${created.id}`;
    const target = await operator.post('/api/admin/notification_targets', {
      ...{ url: receiver.url, events: ['export.incomplete'] },
    });
    await api.sql`update holes set noted_at = now() - interval '2 hours'`;
    expect(await checkCompleteness(api.db)).toBe(1);

    const causes = (await operator.get('/api/admin/causes')).body;
    expect(causes.results).toMatchObject([
      { code: 'intervals.missing', turn, missing_intervals: 1 },
    ]);
    expect((await operator.get(`/api/admin/causes?turn=${turn}`)).body.count).toBe(1);
    const exports = (await operator.get(`/api/admin/exports?turn=${turn}`)).body;
    expect(exports.results).toMatchObject([{ id: created.id, turn, health: 'incomplete' }]);
    const own = await api.get(`${api.exports}/${created.id}`);
    expect(own.body.health).toBe('incomplete');
    expect((await readExportHealth(api.db)).missingIntervals).toEqual([{ code, count: 1 }]);

    const before = receiver.received.length;
    const couriers = openCouriers({ context });
    const courier = couriers.add(senderTo([receiver]));
    await until(async () => {
      await courier.collect();
      return receiver.received.length > before;
    });
    await couriers.closeAll();
    expect(JSON.parse(receiver.received.at(-1)?.body ?? '')).toMatchObject({
      type: 'export.incomplete',
      data: { code, turn, missing_intervals: 1, remedy: expect.stringContaining('again') },
    });
    await operator.delete(`/api/admin/notification_targets/${target.body.id}`);
  });
});
