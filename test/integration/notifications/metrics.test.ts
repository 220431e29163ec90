import { expect, test } from 'vitest';
import { watchService } from '../../../src/main/service-metrics.ts';
import { checkLateness } from '../../../src/state/store/exports/export-states.ts';
import { createMetrics } from '../../../src/foundation/telemetry/metrics.ts';
import { applyRetention } from '../../../src/service/use-cases/installation/apply-retention.ts';
import { createWebhook, senderTo } from '../../support/notified.ts';
import { startReceiver } from '../../support/receiver.ts';
import { openRunSide } from '../../support/run-side.ts';
import { useStage } from '../../support/use-stage.ts';

const side = useStage(openRunSide);

async function read(isUp = true, verifies = false): Promise<ReadonlyMap<string, number>> {
  const metrics = createMetrics();
  let seen = true;
  watchService(metrics, side.db, { look: async () => new Map([['postgres', seen]]) }, verifies);
  if (!isUp) {
    // What it had before is what must go.
    await metrics.registry.metrics();
    seen = false;
  }
  const text = await metrics.registry.metrics();
  const lines = text.split('\n').filter((line) => line.startsWith('sluice_'));
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(' ');
      return [line.slice(0, at), Number(line.slice(at + 1))];
    }),
  );
}

// With no value, an alert on it would never fire for an installation in which nothing is ever verified.
test('the age of the verification is that of the oldest result, and of this process for an export without one', async () => {
  const age = 'sluice_verify_age_seconds';
  const { id } = await side.exportWithRuns(1);
  await side.sql`update batch_exports set created_at = now() - interval '9 days'`;
  expect((await read()).has(age)).toBe(false);
  const waited = (await read(true, true)).get(age);
  expect(waited).toBeGreaterThan(0);
  expect(waited).toBeLessThan(86_400);
  await side.sql`
    insert into export_checks (export_id, verified_at, result)
      values (${id}, now() - interval '3 days', 'proven')`;
  expect((await read(true, true)).get(age)).toBeGreaterThan(2 * 86_400);
  await side.sql`update batch_exports set deleted_at = now()`;
  expect((await read(true, true)).get(age)).toBe(0);
});

test('the gauges count one failing, late, paused or exhausted export among many, without a label of a tenant', async () => {
  for (const _ of Array(5)) {
    const { runIds } = await side.exportWithRuns(1);
    await side.completeRuns(runIds[0]);
  }
  const quiet = await read();
  for (const name of ['failing', 'late', 'retries_exhausted']) {
    expect(quiet.get(`sluice_${name}_exports{fault="internal"}`), name).toBe(0);
  }
  const receiver = await startReceiver();
  await createWebhook(side, senderTo([receiver]), receiver);
  const { id, runIds } = await side.exportWithRuns(1);
  await side.sql`
    update runs set status = 'FailedRetryable', finished_at = now(), error_code = 'destination.unavailable'
      where id = ${runIds[0]}`;
  const late = await side.createExport();
  await side.sql`
    update batch_exports set created_at = now() - interval '5 hours', paused = true, paused_reason = 'failures'
      where id = ${late.id}`;
  await side.sql`
    update batch_exports set high_water_mark = now() - interval '2 days' where id = ${id}`;
  await checkLateness(side.db);
  await side.sql`
    update notification_deliveries set next_attempt_at = now() - interval '10 minutes'`;
  await side.sql`update notification_targets set failing_since = now()`;
  const seen = await read();
  expect(Object.fromEntries(seen)).toMatchObject({
    'sluice_failing_exports{fault="destination"}': 1,
    'sluice_retries_exhausted_exports{fault="destination"}': 1,
    // One customer's store keeps no alert of the operator's red.
    'sluice_failing_exports{fault="internal"}': 0,
    'sluice_missing_intervals{fault="destination"}': 1,
    'sluice_late_exports{fault="internal"}': 1,
    // No failure of it is known.
    'sluice_paused_exports{by="sluice",fault="unknown"}': 1,
    'sluice_paused_exports{by="sluice",fault="internal"}': 0,
    'sluice_paused_exports{by="person",fault=""}': 0,
    // One is exhausted, the other one is paused, and both are late.
    sluice_waiting_notifications: 4,
    sluice_failing_notification_targets: 1,
  });
  expect(seen.get('sluice_worst_lag_seconds')).toBeGreaterThan(2 * 86_400 - 1);
  expect(seen.get('sluice_longest_late_seconds')).toBeGreaterThan(3.5 * 3_600 - 1);
  expect(seen.get('sluice_oldest_due_notification_seconds')).toBeGreaterThan(599);
  const labels = [...seen.keys()].filter((name) => name.includes('{'));
  expect(
    labels.filter(
      (name) => !/\{(kind|by|turn|end|code|fault|dependency|job|model|result|step)="/.test(name),
    ),
  ).toEqual([]);
  // Whose alert it is follows the turn, as the causes say: no customer can correct a model.
  await side.sql`update batch_exports set failing_code = 'source.model_invalid' where id = ${id}`;
  expect((await read()).get('sluice_failing_exports{fault="internal"}')).toBe(1);
  // What a person has paused is paused, and nothing else.
  await side.sql`update batch_exports set paused = true, paused_reason = null where id = ${id}`;
  const paused = await read();
  expect(paused.get('sluice_failing_exports{fault="internal"}')).toBe(0);
  expect(paused.get('sluice_missing_intervals{fault="internal"}')).toBe(0);
  expect(paused.get('sluice_paused_exports{by="person",fault=""}')).toBe(1);
  await receiver.close();
  // PostgreSQL is unreachable: no value of before.
  const blind = [...(await read(false)).keys()];
  expect(blind.filter((name) => /_exports|_runs|_capacity|_lag/.test(name))).toEqual([]);
});

test('what a failure left behind keeps its fault, and is never ours once it is no longer known', async () => {
  await side.sql`update batch_exports set deleted_at = now()`;
  const faultsOf = async (name: string) =>
    Object.fromEntries(
      [...(await read())].flatMap(([key, value]) => {
        const [, labels = ''] = key.split(`sluice_${name}{`);
        const [, fault] = /fault="(\w+)"/.exec(labels) ?? [];
        return fault && value > 0 ? [[fault, value]] : [];
      }),
    );
  const { id, runIds } = await side.exportWithRuns(4);
  const codes = ['destination.bucket_not_found', 'source.unavailable', 'internal.unexpected'];
  for (const [at, code] of codes.entries()) {
    await side.sql`
      update runs set status = 'Failed', finished_at = now(), error_code = ${code} where id = ${runIds[at]}`;
  }
  expect(await faultsOf('failing_exports')).toEqual({ internal: 1 });
  expect(await faultsOf('missing_intervals')).toEqual({ customer: 1, source: 1, internal: 1 });
  // The store works again: the newest run says nothing of the intervals before it.
  await side.completeRuns(runIds[3]);
  expect(await faultsOf('failing_exports')).toEqual({});
  expect(await faultsOf('missing_intervals')).toEqual({ customer: 1, source: 1, internal: 1 });
  await side.sql`update batch_exports set paused = true, paused_reason = 'x' where id = ${id}`;
  expect(await faultsOf('paused_exports')).toEqual({ internal: 1 });
  // Retention has deleted the runs, or a person has cancelled them.
  await side.sql`update runs set error_code = null where export_id = ${id} and status = 'Failed'`;
  expect(await faultsOf('missing_intervals')).toEqual({ unknown: 3 });
  expect(await faultsOf('paused_exports')).toEqual({ unknown: 1 });
});

test('what is old is deleted with its retention', async () => {
  await side.sql`update notification_deliveries set happened_at = now() - interval '40 days'`;
  await applyRetention(side.context);
  expect(await side.sql`select from notification_deliveries`).toEqual([]);
});
