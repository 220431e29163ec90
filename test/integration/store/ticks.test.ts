import { describe, expect, it, test } from 'vitest';
import { jitterMs } from '../../../src/service/scheduling/jitter.ts';
import { readNow, recordTicks } from '../../../src/state/store/intervals/ticks.ts';
import { deleteExport } from '../../../src/service/use-cases/exports/update-export.ts';
import { decideTicks } from '../../../src/service/use-cases/runs/decide-ticks.ts';
import { atNight } from '../../support/nightly.ts';
import { decide, emptyCommit, hourMs, openTestPool, useRunSide } from '../../support/run-side.ts';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { recordFault } from '../../../src/service/use-cases/runs/finish-run.ts';
import { makeHealingRuns } from '../../../src/state/store/healing/healing.ts';
import { makeExpiringRuns } from '../../../src/state/store/intervals/kept-snapshots.ts';
import { listLiveRuns } from '../../../src/state/store/intervals/superseded.ts';
import { insertRuns } from '../../../src/state/store/runs/runs.ts';
import { beginCommit } from '../../support/run-verbs.ts';

const side = useRunSide();

interface TickRow {
  readonly start: string;
  readonly end: string;
  readonly fate: string;
  readonly runId: string | null;
}

function listTicks(exportId: string): Promise<TickRow[]> {
  return side.sql<TickRow>`select data_interval_start as start, data_interval_end as "end", fate, run_id as "runId"
       from ticks where export_id = ${exportId} order by tick_at`;
}

const nextTickInMs = (exportId: string) =>
  side.sql.value`
    select (extract(epoch from next_tick_at - now()) * 1000)::float8 from batch_exports
      where id = ${exportId}`;

it('makes one run, one tick and one outbox row of each export that is due, however many decide at once', async () => {
  const other = openTestPool(side.url);
  const exports = 600;
  const template = await side.createExport();
  await side.sql`
    insert into batch_exports (team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at)
     select team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at
       from batch_exports, generate_series(2, ${exports}) where id = ${template.id}`;
  const deciders = [side.context, { ...side.context, db: other }, side.context];
  const made = await Promise.all(deciders.map(decide));
  await other.close();
  expect(made.reduce((sum, some) => sum + some)).toBe(exports);
  const [counts] = await side.sql`
    select (select count(*)::int from runs) as runs, (select count(*)::int from ticks) as ticks,
            (select count(*)::int from outbox) as outbox, (select count(distinct export_id)::int from runs) as exports`;
  expect(counts).toEqual({ runs: exports, ticks: exports, outbox: exports, exports });
  expect(await side.decide()).toBe(0);
});

it('catches up on a thousand missed ticks without a cap, each interval at the end of the last', async () => {
  const { id } = await side.createExport({
    interval: 'every 5 minutes',
    createdMsAgo: 1_000 * 300_000,
  });
  expect(await side.decide()).toBe(1_000);
  const runs = await side.listRuns(id);
  expect(runs).toHaveLength(1_000);
  for (const [index, run] of runs.entries()) {
    if (index > 0) expect(run.start).toBe(runs[index - 1]?.end);
  }
  const waiting = await side.sql<{ start: string }>`
    select data_interval_start as start from outbox where export_id = ${id} order by available_at`;
  expect(waiting.map((row) => row.start)).toEqual(runs.map((run) => run.start));
  expect(await nextTickInMs(id)).toBeGreaterThan(0);
});

atNight('decides an export that is due behind thousands of overdue ticks of another', async () => {
  const flood = await side.createExport({
    interval: 'every 5 minutes',
    createdMsAgo: 15_000 * 300_000,
  });
  const due = await side.createExport();
  const pages: number[] = [];
  const context = {
    ...side.context,
    db: {
      ...side.db,
      async transaction<T>(work: Parameters<typeof side.db.transaction<T>>[0]): Promise<T> {
        const result = await side.db.transaction(work);
        pages.push((await side.listRuns(due.id)).length);
        return result;
      },
    },
  };
  await decide(context);
  expect([pages[0], Math.max(...pages)]).toEqual([1, 1]);
  // One more if five minutes begin meanwhile.
  expect([15_000, 15_001]).toContain((await listTicks(flood.id)).length);
});

it('stores ticks of a pause and outside the window as rows without a run', async () => {
  const now = await readNow(side.db);
  const paused = await side.createExport({ paused: true, createdMsAgo: 2 * hourMs });
  const later = await side.createExport({ startAt: now + hourMs });
  const over = await side.createExport({ endAt: now - 2 * hourMs });
  expect(await side.decide()).toBe(0);
  const fates = async (id: string) =>
    (await listTicks(id)).map(({ fate, runId }) => ({ fate, runId }));
  const pausedTick = { fate: 'paused', runId: null };
  const outside = { fate: 'outside_window', runId: null };
  expect(await fates(paused.id)).toEqual([pausedTick, pausedTick]);
  expect(await fates(later.id)).toEqual([outside]);
  expect(await fates(over.id)).toEqual([outside]);
});

it('lets jitter delay the start alone, never the interval', async () => {
  const context = side.withPolicy({ maxJitterSeconds: 300 });
  const batchExport = await side.createExport();
  await decide(context);
  const [row] = await side.sql<{ delayMs: number; end: string; ready: boolean }>`
    select (extract(epoch from o.available_at - r.data_interval_end) * 1000)::int as "delayMs",
      r.data_interval_end as end, ready
       from outbox o join runs r on r.id = o.run_id where o.export_id = ${batchExport.id}`;
  expect(row?.delayMs).toBe(jitterMs(batchExport.id, batchExport.cadence, 300));
  expect(row?.delayMs).toBeGreaterThan(0);
  expect(row?.end).toMatch(/:00:00\.000000Z$/);
});

it('cannot make the run of a tick twice, even with a stale schedule', async () => {
  const { id } = await side.exportWithRuns(1);
  const run = await side.firstRun(id);
  const interval = { start: Date.parse(run.start), end: Date.parse(run.end) };
  const at = { tickAt: interval.end, availableAt: interval.end, interval };
  const tick = { exportId: id, teamId: side.teamId, fate: 'ran', ...at } as const;
  expect(await recordTicks(side.db, [tick])).toBe(0);
  // Nor with a schedule that a clock which went back has left behind.
  await side.sql`update batch_exports set next_tick_at = next_tick_at - interval '1 h',
            schedule = jsonb_set(jsonb_set(schedule,
              '{nextTickAt}', to_jsonb((schedule->>'nextTickAt')::bigint - 3600000)),
              '{openIntervalStart}', to_jsonb((schedule->>'openIntervalStart')::bigint - 3600000)) where id = ${id}`;
  expect(await side.decide()).toBe(0);
  expect(await side.listRuns(id)).toHaveLength(1);
  expect(await listTicks(id)).toHaveLength(1);
});

it('names the run of a backfill that began the interval before its tick was decided', async () => {
  const { id, schedule } = await side.createExport();
  const runId = await side.sql.value`
    insert into runs (export_id, team_id, data_interval_start, data_interval_end, generation)
     values (${id}, ${side.teamId}, to_timestamp(${schedule.openIntervalStart} / 1000.0),
       to_timestamp(${schedule.nextTickAt} / 1000.0), 1) returning id`;
  expect(await side.decide()).toBe(0);
  expect(await listTicks(id)).toMatchObject([{ fate: 'ran', runId }]);
});

it('postpones an export whose schedule is broken and decides all others; once it is fixed, no tick is lost', async () => {
  const broken = await side.createExport({ createdMsAgo: 3 * hourMs });
  const sound = await side.createExport();
  const store = (schedule: unknown) =>
    side.sql`
      update batch_exports set schedule = ${JSON.stringify(schedule)} where id = ${broken.id}`;
  for (const schedule of [
    {},
    { ...broken.schedule, cadences: [] },
    { ...broken.schedule, openIntervalStart: broken.schedule.nextTickAt },
  ]) {
    await store(schedule);
    await side.sql`
      update batch_exports set next_tick_at = now() - interval '1 h' where id = ${broken.id}`;
    const errors: string[] = [];
    const onError = (_: unknown, exportId: string) => errors.push(exportId);
    await decideTicks(side.context, { onError });
    expect(errors).toEqual([broken.id]);
    expect(await nextTickInMs(broken.id)).toBeGreaterThan(0);
  }
  expect(await side.listRuns(sound.id)).toHaveLength(1);
  expect(await side.listRuns(broken.id)).toHaveLength(0);
  await store(broken.schedule);
  await side.sql`
    update batch_exports set next_tick_at = now() - interval '1 s' where id = ${broken.id}`;
  expect(await side.decide()).toBe(3);
});

it('never fires for an export that was deleted', async () => {
  const { id } = await side.createExport();
  await deleteExport(side.context, side.actor, id);
  expect([await side.decide(), await listTicks(id)]).toEqual([0, []]);
});

describe('snapshots', () => {
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
});
