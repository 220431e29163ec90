import { expect, test } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { recordFault } from '../../../src/service/use-cases/runs/finish-run.ts';
import { makeHealingRuns } from '../../../src/state/store/healing/healing.ts';
import { makeExpiringRuns } from '../../../src/state/store/intervals/kept-snapshots.ts';
import { listLiveRuns } from '../../../src/state/store/intervals/superseded.ts';
import { insertRuns } from '../../../src/state/store/runs/runs.ts';
import { emptyCommit, hourMs, useRunSide } from '../../support/run-side.ts';
import { beginCommit } from '../../support/run-verbs.ts';

const side = useRunSide();

const createSnapshots = (hours: number) =>
  side.createExport({ mode: 'snapshot', createdMsAgo: hours * hourMs });

/** The schedule goes back, so that its last `hours` are due again. */
async function goBack(exportId: string, hours: number): Promise<void> {
  await side.db.query(
    `update batch_exports set next_tick_at = next_tick_at - $2 * interval '1 hour', schedule = schedule || jsonb_build_object(
       'openIntervalStart', (schedule->>'openIntervalStart')::bigint - $2 * ${hourMs}, 'nextTickAt', (schedule->>'nextTickAt')::bigint - $2 * ${hourMs})
      where id = $1`,
    [exportId, hours],
  );
}

/** An export whose newest hour is not due yet; the hour before has a run. */
async function createWithRun() {
  const { id } = await createSnapshots(1);
  await side.decide();
  return { id, run: await side.firstRun(id) };
}

/** Decides what is due. @returns the statuses of the runs of an export, the oldest interval first */
async function decideAll(exportId: string): Promise<readonly string[]> {
  await side.sql`
    update batch_exports set next_tick_at = now() - interval '1 s' where id = ${exportId}
      and next_tick_at < now() + interval '10 s'`;
  await side.decide();
  return (await side.listRuns(exportId)).map(({ status }) => status);
}

const fatesOf = (exportId: string) =>
  side.sql.values`select fate from ticks where export_id = ${exportId} order by tick_at`;

const supersededOf = (exportId: string) =>
  side.sql<{ end: string; by: string }>`
    select api_time(data_interval_end) as "end", api_time(superseded_by) as by from accepted_intervals
      where export_id = ${exportId} order by 1`;

/** Makes the hour after the run's due: as if the run were of the hour before. */
async function ageRun(exportId: string): Promise<void> {
  for (const table of ['runs', 'ticks', 'holes']) {
    await side.db.query(
      `update ${table} set data_interval_start = data_interval_start - interval '1 hour', data_interval_end = data_interval_end - interval '1 hour'
        where export_id = $1`,
      [exportId],
    );
  }
  await side.sql`
    update ticks set tick_at = tick_at - interval '1 hour' where export_id = ${exportId}`;
  await goBack(exportId, 1);
}

test('of the ticks that an outage has missed only the newest gets a run, and the mark passes the others', async () => {
  const { id } = await createSnapshots(4);
  expect(await decideAll(id)).toEqual(['Starting']);
  const fates = await fatesOf(id);
  expect(fates.at(-1)).toBe('ran');
  expect(fates.slice(0, -1)).toEqual(fates.slice(1).map(() => 'superseded'));
  expect(fates.length).toBeGreaterThanOrEqual(3);
  const run = await side.firstRun(id);
  const superseded = await supersededOf(id);
  expect(superseded.map(({ by }) => by)).toEqual(superseded.map(() => run.end));
  await side.completeRuns(run.id);
  const mark = await side.sql.value`
    select api_time(high_water_mark) from batch_exports where id = ${id}`;
  expect(mark).toBe(run.end);
});

test('a tick waits for the run before it, and nothing else makes a second one', async () => {
  const { id, run } = await createWithRun();
  await ageRun(id);
  const interval = { start: Date.parse(run.end) - hourMs, end: Date.parse(run.end) };
  expect(await decideAll(id), 'it waits for its first attempt').toEqual(['Starting']);
  const held = await side.claim(run.id);
  expect(await decideAll(id)).toEqual(['Running']);
  const wanted = { exportId: id, teamId: side.teamId, interval, backfillId: null };
  expect(await insertRuns(side.db, [wanted])).toEqual([]);
  await side.sql`
    insert into holes (export_id, data_interval_start, data_interval_end, heals_since)
      values (${id}, to_timestamp(${interval.start / 1000}), to_timestamp(${interval.end / 1000}), now())`;
  expect(await makeHealingRuns(side.db, 2, 10)).toBe(0);
  await side.sql`delete from holes where export_id = ${id}`;
  expect(await side.complete(held)).toBe(true);
  expect(await decideAll(id)).toEqual(['Completed', 'Starting']);
  expect(await supersededOf(id)).toEqual([]);
});

test('a run that fails until the next tick ends without success, and the newer one takes its place', async () => {
  const { id, run } = await createWithRun();
  await side.failAttempt(run.id, new SluiceError('destination.unavailable'));
  await ageRun(id);
  expect(await decideAll(id)).toEqual(['FailedRetryable', 'Starting']);
  const [, next] = await side.listRuns(id);
  expect(await side.sql`select from holes where export_id = ${id}`).toEqual([]);
  expect(await supersededOf(id)).toEqual([{ end: next?.start, by: next?.end }]);
  const code = await side.sql.value`select failing_code from batch_exports where id = ${id}`;
  expect(code).toBe('destination.unavailable');
});

test.each([
  ['fails', 'goes on counting', 2],
  ['succeeds', 'counts from the beginning', 0],
])('after a run that killed workers and %s, the next one %s', async (end, _, crashes) => {
  const { id, run } = await createWithRun();
  await side.sql`update runs set crashes = 2, deaths_alone = 1 where id = ${run.id}`;
  if (end === 'succeeds') await side.completeRuns(run.id);
  else await side.failAttempt(run.id, new SluiceError('internal.unexpected'));
  await ageRun(id);
  expect((await decideAll(id)).at(-1)).toBe('Starting');
  const counted = await side.sql`
    select crashes, deaths_alone as alone from runs where export_id = ${id} and status = 'Starting'`;
  expect(counted).toEqual([{ crashes, alone: crashes / 2 }]);
  const [live] = await side.db.transaction((tx) => listLiveRuns(tx, [id]));
  expect(live?.isFailing, 'it waits for its first attempt').toBe(false);
});

test('a run that has begun to commit is not ended: its manifest may be current', async () => {
  const { id, run } = await createWithRun();
  const held = await side.claim(run.id);
  expect(await beginCommit(side.db, held, 60_000, {}, emptyCommit)).toBe(true);
  await recordFault(side.context, held, new SluiceError('destination.unavailable'), 0);
  await ageRun(id);
  expect(await decideAll(id)).toEqual(['Running']);
});

test.each([
  ['destination.unavailable', 1],
  ['run.crashed', 0],
])(
  'the removal of an old snapshot that ended with %s is tried again %i times',
  async (code, tries) => {
    const { id, run } = await createWithRun();
    await side.completeRuns(run.id);
    await side.sql`
      update receipts set snapshot_at = now(), manifest_key = 'm' where export_id = ${id}`;
    await side.sql`
      insert into receipts select (jsonb_populate_record(c, jsonb_build_object('data_interval_start',
        c.data_interval_start - interval '1 hour',
       'data_interval_end', c.data_interval_start))).* from receipts c where export_id = ${id}`;
    await side.sql`update batch_exports set keep_snapshots = 1 where id = ${id}`;
    const expiring = () => makeExpiringRuns(side.db, 10);
    expect(await expiring()).toBe(1);
    await side.sql`
      update runs set status = 'Failed', error_code = ${code}, finished_at = now() - interval '2 hours'
        where export_id = ${id} and purpose = 'expire'`;
    expect(await expiring()).toBe(tries);
  },
);
