import { describe, expect, it } from 'vitest';
import { jitterMs } from '../../../src/service/scheduling/jitter.ts';
import { readNow, recordTicks } from '../../../src/state/store/intervals/ticks.ts';
import { deleteExport } from '../../../src/service/use-cases/exports/delete-export.ts';
import { decideTicks } from '../../../src/service/use-cases/runs/decide-ticks.ts';
import {
  createExportOfThePast,
  decide,
  firstRun,
  hourMs,
  listRuns,
  openTestPool,
} from '../../support/run-side.ts';
import { useRunSide } from '../../support/use-run-side.ts';

const side = useRunSide();

interface TickRow {
  readonly start: string;
  readonly end: string;
  readonly fate: string;
  readonly runId: string | null;
}

function listTicks(exportId: string): Promise<TickRow[]> {
  return side.db.query<TickRow>(
    `select data_interval_start as start, data_interval_end as "end", fate, run_id as "runId"
       from ticks where export_id = $1 order by tick_at`,
    [exportId],
  );
}

async function nextTickInMs(exportId: string): Promise<number> {
  const [row] = await side.db.query<{ ms: number }>(
    `select (extract(epoch from next_tick_at - now()) * 1000)::float8 as ms from batch_exports where id = $1`,
    [exportId],
  );
  return row?.ms ?? Number.NaN;
}

describe('deciding ticks', () => {
  it('makes one run, one tick and one outbox row of each export that is due, however many decide at once', async () => {
    const other = openTestPool(side.url);
    const exports = 600;
    const template = await createExportOfThePast(side);
    await side.db.query(
      `insert into batch_exports (team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at)
       select team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at
         from batch_exports, generate_series(2, $2) where id = $1`,
      [template.id, exports],
    );
    const deciders = [side.context, { ...side.context, db: other }, side.context];
    const made = await Promise.all(deciders.map(decide));
    await other.close();
    expect(made.reduce((sum, some) => sum + some)).toBe(exports);
    const [counts] = await side.db.query(
      `select (select count(*)::int from runs) as runs, (select count(*)::int from ticks) as ticks,
              (select count(*)::int from outbox) as outbox, (select count(distinct export_id)::int from runs) as exports`,
    );
    expect(counts).toEqual({ runs: exports, ticks: exports, outbox: exports, exports });
    expect(await decide(side.context)).toBe(0);
  });

  it('catches up on a thousand missed ticks without a cap, each interval at the end of the last', async () => {
    const { id } = await createExportOfThePast(side, {
      interval: 'every 5 minutes',
      createdMsAgo: 1_000 * 300_000,
    });
    expect(await decide(side.context)).toBe(1_000);
    const runs = await listRuns(side.db, id);
    expect(runs).toHaveLength(1_000);
    for (const [index, run] of runs.entries()) {
      if (index > 0) expect(run.start).toBe(runs[index - 1]?.end);
    }
    const waiting = await side.db.query<{ start: string }>(
      `select data_interval_start as start from outbox where export_id = $1 order by available_at`,
      [id],
    );
    expect(waiting.map((row) => row.start)).toEqual(runs.map((run) => run.start));
    expect(await nextTickInMs(id)).toBeGreaterThan(0);
  });

  it('decides an export that is due behind one with thousands of overdue ticks in its first page', async () => {
    const flood = await createExportOfThePast(side, {
      interval: 'every 5 minutes',
      createdMsAgo: 15_000 * 300_000,
    });
    const due = await createExportOfThePast(side);
    const pages: number[] = [];
    const context = {
      ...side.context,
      db: {
        ...side.db,
        async transaction<T>(work: Parameters<typeof side.db.transaction<T>>[0]): Promise<T> {
          const result = await side.db.transaction(work);
          pages.push((await listRuns(side.db, due.id)).length);
          return result;
        },
      },
    };
    await decide(context);
    expect(pages[0]).toBe(1);
    expect(Math.max(...pages)).toBe(1);
    const [row] = await side.db.query<{ n: number }>(
      `select count(*)::int as n from ticks where export_id = $1`,
      [flood.id],
    );
    // One more if five minutes begin meanwhile.
    expect([15_000, 15_001]).toContain(row?.n);
  });

  it('stores ticks of a pause and outside the window as rows without a run', async () => {
    const now = await readNow(side.db);
    const paused = await createExportOfThePast(side, { paused: true, createdMsAgo: 2 * hourMs });
    const later = await createExportOfThePast(side, { startAt: now + hourMs });
    const over = await createExportOfThePast(side, { endAt: now - 2 * hourMs });
    expect(await decide(side.context)).toBe(0);
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
    const batchExport = await createExportOfThePast(side);
    await decide(context);
    const [row] = await side.db.query<{ delayMs: number; end: string; ready: boolean }>(
      `select (extract(epoch from o.available_at - r.data_interval_end) * 1000)::int as "delayMs", r.data_interval_end as end, ready
         from outbox o join runs r on r.id = o.run_id where o.export_id = $1`,
      [batchExport.id],
    );
    expect(row?.delayMs).toBe(jitterMs(batchExport.id, batchExport.cadence, 300));
    expect(row?.delayMs).toBeGreaterThan(0);
    expect(row?.end).toMatch(/:00:00\.000000Z$/);
  });

  it('cannot make the run of a tick twice, even with a stale schedule', async () => {
    const { id } = await createExportOfThePast(side);
    await decide(side.context);
    const run = await firstRun(side.db, id);
    const interval = { start: Date.parse(run.start), end: Date.parse(run.end) };
    const tick = {
      exportId: id,
      teamId: side.teamId,
      tickAt: interval.end,
      interval,
      fate: 'ran',
      availableAt: interval.end,
    } as const;
    expect(await recordTicks(side.db, [tick])).toBe(0);
    // Nor with a schedule that a clock which went back has left behind.
    await side.db.query(
      `update batch_exports set next_tick_at = next_tick_at - interval '1 h',
              schedule = jsonb_set(jsonb_set(schedule, '{nextTickAt}', to_jsonb((schedule->>'nextTickAt')::bigint - 3600000)),
                '{openIntervalStart}', to_jsonb((schedule->>'openIntervalStart')::bigint - 3600000)) where id = $1`,
      [id],
    );
    expect(await decide(side.context)).toBe(0);
    expect(await listRuns(side.db, id)).toHaveLength(1);
    expect(await listTicks(id)).toHaveLength(1);
  });

  it('names the run of a backfill that began the interval before its tick was decided', async () => {
    const { id, schedule } = await createExportOfThePast(side);
    const [made] = await side.db.query<{ id: string }>(
      `insert into runs (export_id, team_id, data_interval_start, data_interval_end, generation)
       values ($1, $2, to_timestamp($3 / 1000.0), to_timestamp($4 / 1000.0), 1) returning id`,
      [id, side.teamId, schedule.openIntervalStart, schedule.nextTickAt],
    );
    expect(await decide(side.context)).toBe(0);
    expect(await listTicks(id)).toEqual([
      expect.objectContaining({ fate: 'ran', runId: made?.id }),
    ]);
  });

  it('postpones an export whose schedule is broken and decides all others; once it is fixed, no tick is lost', async () => {
    const broken = await createExportOfThePast(side, { createdMsAgo: 3 * hourMs });
    const sound = await createExportOfThePast(side);
    const store = (schedule: unknown) =>
      side.db.query(`update batch_exports set schedule = $2 where id = $1`, [
        broken.id,
        JSON.stringify(schedule),
      ]);
    for (const schedule of [
      {},
      { ...broken.schedule, cadences: [] },
      { ...broken.schedule, openIntervalStart: broken.schedule.nextTickAt },
    ]) {
      await store(schedule);
      await side.db.query(
        `update batch_exports set next_tick_at = now() - interval '1 h' where id = $1`,
        [broken.id],
      );
      const errors: string[] = [];
      const onError = (_: unknown, exportId: string) => errors.push(exportId);
      await decideTicks(side.context, { onError });
      expect(errors).toEqual([broken.id]);
      expect(await nextTickInMs(broken.id)).toBeGreaterThan(0);
    }
    expect(await listRuns(side.db, sound.id)).toHaveLength(1);
    expect(await listRuns(side.db, broken.id)).toHaveLength(0);
    await store(broken.schedule);
    await side.db.query(
      `update batch_exports set next_tick_at = now() - interval '1 s' where id = $1`,
      [broken.id],
    );
    expect(await decide(side.context)).toBe(3);
  });

  it('never fires for an export that was deleted', async () => {
    const { id } = await createExportOfThePast(side);
    await deleteExport(
      side.context,
      { organizationId: side.tenant.organizationId, keyId: null },
      id,
    );
    expect(await decide(side.context)).toBe(0);
    expect(await listTicks(id)).toEqual([]);
  });
});
