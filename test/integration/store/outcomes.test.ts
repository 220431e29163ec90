import { describe, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { listReceipts } from '../../../src/state/store/intervals/receipts.ts';
import { findRun } from '../../../src/state/store/runs/runs.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { unpauseExport } from '../../../src/service/use-cases/exports/unpause-export.ts';
import { retryRun } from '../../../src/service/use-cases/runs/cancel-work.ts';
import {
  claim,
  complete,
  createExportOfThePast,
  decide,
  failAttempt,
  hourMs,
  listRuns,
} from '../../support/run-side.ts';
import { useRunSide } from '../../support/use-run-side.ts';

const side = useRunSide();
const denied = new SluiceError('destination.access_denied');

async function exportWithRuns(count: number): Promise<{ id: string; runIds: string[] }> {
  const { id } = await createExportOfThePast(side, { createdMsAgo: count * hourMs });
  await decide(side.context);
  return { id, runIds: (await listRuns(side.db, id)).map((run) => run.id) };
}

async function completeRun(runId: string | undefined): Promise<void> {
  if (runId === undefined) throw new Error('there is no such run');
  expect(await complete(side.context, await claim(side, runId))).toBe(true);
}

interface ExportState {
  readonly streak: number;
  readonly paused: boolean;
  readonly reason: string | null;
  readonly mark: string | null;
}

async function stateOf(id: string): Promise<ExportState | undefined> {
  const [row] = await side.db.query<ExportState>(
    `select failure_streak as streak, paused, paused_reason as reason, high_water_mark as mark from batch_exports where id = $1`,
    [id],
  );
  return row;
}

async function levels(id: string): Promise<string[]> {
  const rows = await side.db.query<{ level: string }>(
    `select level from log_entries where export_id = $1 and run_id is null order by id`,
    [id],
  );
  return rows.map((row) => row.level);
}

describe('a failing backfill', () => {
  it('stops itself after ten Failed runs in a row, and leaves the schedule alone', async () => {
    const { id, runIds } = await exportWithRuns(12);
    const [made] = await side.db.query<{ id: string }>(
      `insert into backfills (export_id, team_id, start_at, end_at, concurrency, total_runs, planned_to)
       select id, team_id, now() - interval '20 hours', now(), 2, 20, now() - interval '9 hours' from batch_exports where id = $1 returning id`,
      [id],
    );
    await side.db.query('update runs set backfill_id = $2 where export_id = $1', [id, made?.id]);
    const backfill = async () =>
      (
        await side.db.query<{ status: string; reason: string | null }>(
          'select status, stopped_reason as reason from backfills where id = $1',
          [made?.id],
        )
      )[0];
    const fail = async (runId: string | undefined) => {
      // At a place that has worked, a refusal is tried again before it ends a run.
      const ended = 'select from runs where id = $1 and finished_at is not null';
      while ((await side.db.query(ended, [runId])).length === 0) {
        await side.db.query('update outbox set available_at = now() where run_id = $1', [runId]);
        await failAttempt(side, side.context, runId ?? '', denied);
      }
    };
    await fail(runIds[0]);
    await completeRun(runIds[1]);
    for (const runId of runIds.slice(2, 11)) await fail(runId);
    // Nine after the success.
    expect(await backfill()).toEqual({ status: 'Running', reason: null });
    await fail(runIds[11]);
    expect(await backfill()).toEqual({
      status: 'Cancelled',
      reason: expect.stringMatching(/^destination\.access_denied: /),
    });
    expect(await stateOf(id)).toMatchObject({ streak: 0, paused: false });
    expect(await levels(id)).toEqual(['ERROR']);
  });
});

it.each([
  ['whole', true, false],
  ['erase', true, false],
  ['supplement', true, true],
  ['whole', false, true],
] as const)(
  'a failed run of purpose %s, with delivered files: %s, promises that Sluice tries again: %s',
  async (purpose, isDelivered, promises) => {
    const { id, runIds } = await exportWithRuns(1);
    await completeRun(runIds[0]);
    const found = await findRun(side.db, id, runIds[0] ?? '');
    if (!found) throw new Error('there is no such run');
    const again = await retryRun(side.context, found);
    await side.db.query('update runs set purpose = $2 where id = $1', [again, purpose]);
    if (!isDelivered) await side.db.query('delete from receipts where export_id = $1', [id]);
    const once = side.withPolicy({ retry: { maxAttempts: 1, baseMs: 1, capMs: 1 } });
    await failAttempt(side, once, again, new SluiceError('destination.unavailable'));
    const [failed] = await side.db.query<{ status: string; error: string }>(
      'select status, latest_error as error from runs where id = $1',
      [again],
    );
    expect(failed?.status).toBe('FailedRetryable');
    expect(failed?.error.includes('by itself, for heal_for_hours')).toBe(promises);
  },
);

describe('the streak of failures', () => {
  it('warns at five, pauses at ten with the reason, and closes the gate of the schedule', async () => {
    const { id, runIds } = await exportWithRuns(10);
    for (const runId of runIds.slice(0, 4)) await failAttempt(side, side.context, runId, denied);
    expect(await levels(id)).toEqual([]);
    await failAttempt(side, side.context, runIds[4] ?? '', denied);
    expect(await levels(id)).toEqual(['WARNING']);
    for (const runId of runIds.slice(5, 9)) await failAttempt(side, side.context, runId, denied);
    expect(await stateOf(id)).toMatchObject({ streak: 9, paused: false });
    await failAttempt(side, side.context, runIds[9] ?? '', denied);
    const state = await stateOf(id);
    expect(state).toMatchObject({ streak: 10, paused: true });
    expect(state?.reason).toMatch(/^destination\.access_denied: /);
    expect(await levels(id)).toEqual(['WARNING', 'ERROR']);

    const [row] = await side.db.query<{ gates: { pausedSince: number | null }[] }>(
      `select schedule->'gates' as gates from batch_exports where id = $1`,
      [id],
    );
    expect(row?.gates.at(-1)?.pausedSince).toEqual(expect.any(Number));
  });

  it('is counted once each by ten failures at the same moment, and pauses once', async () => {
    const { id, runIds } = await exportWithRuns(12);
    await Promise.all(runIds.map((runId) => failAttempt(side, side.context, runId, denied)));
    expect(await stateOf(id)).toMatchObject({ streak: 12, paused: true });
    expect(await levels(id)).toEqual(['WARNING', 'ERROR']);
  });

  it('ends with a success', async () => {
    const { id, runIds } = await exportWithRuns(4);
    for (const runId of runIds.slice(0, 3)) await failAttempt(side, side.context, runId, denied);
    await completeRun(runIds[3]);
    expect(await stateOf(id)).toMatchObject({ streak: 0, paused: false });
  });

  it('begins anew when the export is unpaused', async () => {
    const { id, runIds } = await exportWithRuns(11);
    for (const runId of runIds.slice(0, 10)) await failAttempt(side, side.context, runId, denied);
    const actor = { organizationId: side.tenant.organizationId, keyId: null };
    await unpauseExport(side.context, actor, id, { backfill: false, retryMissing: false });
    await failAttempt(side, side.context, runIds[10] ?? '', denied);
    expect(await stateOf(id)).toMatchObject({ streak: 1, paused: false });
  });
});

describe('the high-water mark', () => {
  it('stops at a gap, and moves over all that waits behind it once the gap is closed', async () => {
    const { id, runIds } = await exportWithRuns(5);
    const runs = await listRuns(side.db, id);
    await completeRun(runIds[1]);
    expect((await stateOf(id))?.mark).toBeNull();
    await completeRun(runIds[0]);
    expect((await stateOf(id))?.mark).toBe(runs[1]?.end);
    await completeRun(runIds[3]);
    expect((await stateOf(id))?.mark).toBe(runs[1]?.end);
    await completeRun(runIds[2]);
    expect((await stateOf(id))?.mark).toBe(runs[3]?.end);
  });

  it('is right when all intervals complete at the same moment', async () => {
    const { id, runIds } = await exportWithRuns(12);
    const claimed = await Promise.all(runIds.map((runId) => claim(side, runId)));
    await Promise.all(claimed.map((run) => complete(side.context, run)));
    expect((await stateOf(id))?.mark).toBe((await listRuns(side.db, id)).at(-1)?.end);
  });

  it('does not move back, nor past a run that failed, when an interval before it runs again', async () => {
    const { id, runIds } = await exportWithRuns(3);
    const runs = await listRuns(side.db, id);
    await completeRun(runIds[0]);
    const context = side.withPolicy({ secondOpinionMs: 0 });
    // A destination that worked before is asked twice.
    for (const _ of [1, 2]) await failAttempt(side, context, runIds[1] ?? '', denied);
    expect((await listRuns(side.db, id))[1]?.status).toBe('Failed');
    await completeRun(runIds[2]);
    const first = await findRun(side.db, id, runIds[0] ?? '');
    if (!first) throw new Error('the run is gone');
    await completeRun(await retryRun(side.context, first));
    expect((await stateOf(id))?.mark).toBe(runs[0]?.end);
  });

  it('does not begin with intervals before the first tick, which only a backfill completes', async () => {
    const { id, schedule } = await createExportOfThePast(side, { createdMsAgo: 2 * hourMs });
    await side.db.query(
      `insert into runs (export_id, team_id, data_interval_start, data_interval_end)
       values ($1, $2, to_timestamp($3 / 1000.0) - interval '1 h', to_timestamp($3 / 1000.0))`,
      [id, side.teamId, schedule.openIntervalStart],
    );
    await completeRun((await listRuns(side.db, id))[0]?.id);
    expect((await stateOf(id))?.mark).toBeNull();
    await decide(side.context);
    const runs = await listRuns(side.db, id);
    await completeRun(runs[1]?.id);
    expect((await stateOf(id))?.mark).toBe(runs[1]?.end);
  });

  it('begins at the first tick that ran, not at one outside the window', async () => {
    const startAt = (await readNow(side.db)) - 2 * hourMs;
    const { id } = await createExportOfThePast(side, { startAt, createdMsAgo: 5 * hourMs });
    await decide(side.context);
    const ticks = await side.db.query<{ fate: string }>(
      'select fate from ticks where export_id = $1 order by tick_at',
      [id],
    );
    expect([ticks[0]?.fate, ticks.at(-1)?.fate]).toEqual(['outside_window', 'ran']);
    const runs = await listRuns(side.db, id);
    await completeRun(runs[0]?.id);
    expect((await stateOf(id))?.mark).toBe(runs[0]?.end);
  });
});

describe('the receipt', () => {
  it('of a re-run replaces the one before; there is one per interval', async () => {
    const { id, runIds } = await exportWithRuns(1);
    await completeRun(runIds[0]);
    const run = await findRun(side.db, id, runIds[0] ?? '');
    if (!run) throw new Error('the run is gone');
    const receiptRuns = async () =>
      (await listReceipts(side.db, id, null, 10)).map(({ runId }) => runId);
    const again = await retryRun(side.context, run);
    await expect(retryRun(side.context, run)).rejects.toThrow('is live');
    expect(await receiptRuns()).toEqual([run.id]);
    await completeRun(again);
    expect(await receiptRuns()).toEqual([again]);
  });
});
