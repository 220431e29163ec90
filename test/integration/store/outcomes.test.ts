import { describe, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { listReceipts } from '../../../src/state/store/intervals/receipts.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { unpauseExport } from '../../../src/service/use-cases/exports/pause-export.ts';
import { failAttempt, hourMs, useRunSide } from '../../support/run-side.ts';
import type { StoreTraits } from '../../../src/foundation/domain/store-traits.ts';
import { retireDestination } from '../../../src/state/store/files/former-destinations.ts';
import type { Destination } from '../../../src/rows/destinations/destination.ts';
import { keepNewTraits } from '../../../src/service/worker/try-store.ts';
import { findStoreTraits, keepStoreTraits } from '../../../src/state/store/files/store-traits.ts';

const side = useRunSide({ secondOpinionMs: 0 });
const denied = new SluiceError('destination.access_denied');

interface ExportState {
  readonly streak: number;
  readonly paused: boolean;
  readonly reason: string | null;
  readonly mark: string | null;
}

async function stateOf(id: string): Promise<ExportState | undefined> {
  const [row] = await side.sql<ExportState>`
    select failure_streak as streak, paused, paused_reason as reason, high_water_mark as mark
      from batch_exports where id = ${id}`;
  return row;
}

const levels = (id: string) =>
  side.sql.values<string>`
    select level from log_entries where export_id = ${id} and run_id is null order by id`;

it('a failing backfill stops itself after ten Failed runs in a row, and leaves the schedule alone', async () => {
  const { id, runIds } = await side.exportWithRuns(12);
  const made = await side.sql.value`
      insert into backfills (export_id, team_id, start_at, end_at, concurrency, total_runs, planned_to)
       select id, team_id, now() - interval '20 hours', now(), 2, 20, now() - interval '9 hours' from batch_exports
         where id = ${id} returning id`;
  await side.sql`update runs set backfill_id = ${made} where export_id = ${id}`;
  const backfill = async () =>
    (
      await side.sql<{ status: string; reason: string | null }>`
          select status, stopped_reason as reason from backfills where id = ${made}`
    )[0];
  const fail = async (runId: string | undefined) => {
    // At a place that has worked, a refusal is tried again before it ends a run.
    const ended = 'select from runs where id = $1 and finished_at is not null';
    while ((await side.db.query(ended, [runId])).length === 0) {
      await side.sql`update outbox set available_at = now() where run_id = ${runId}`;
      await side.failAttempt(runId ?? '', denied);
    }
  };
  await fail(runIds[0]);
  await side.completeRuns(runIds[1]);
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

it.each([
  ['whole', true, false],
  ['erase', true, false],
  ['supplement', true, true],
  ['whole', false, true],
] as const)(
  'a failed run of purpose %s, with delivered files: %s, promises that Sluice tries again: %s',
  async (purpose, isDelivered, promises) => {
    const { id, runIds } = await side.exportWithRuns(1);
    await side.completeRuns(runIds[0]);
    const again = await side.retry({ exportId: id, runId: runIds[0] });
    await side.sql`update runs set purpose = ${purpose} where id = ${again}`;
    if (!isDelivered) await side.sql`delete from receipts where export_id = ${id}`;
    const once = side.withPolicy({ retry: { maxAttempts: 1, baseMs: 1, capMs: 1 } });
    await failAttempt(side, once, again, new SluiceError('destination.unavailable'));
    const [failed] = await side.sql<{ status: string; error: string }>`
      select status, latest_error as error from runs where id = ${again}`;
    expect(failed?.status).toBe('FailedRetryable');
    expect(failed?.error.includes('by itself, for heal_for_hours')).toBe(promises);
  },
);

describe('the streak of failures', () => {
  it('warns at five, pauses at ten with the reason, and closes the gate of the schedule', async () => {
    const { id, runIds } = await side.exportWithRuns(10);
    for (const runId of runIds.slice(0, 4)) await side.failAttempt(runId, denied);
    expect(await levels(id)).toEqual([]);
    await side.failAttempt(runIds[4] ?? '', denied);
    expect(await levels(id)).toEqual(['WARNING']);
    for (const runId of runIds.slice(5, 9)) await side.failAttempt(runId, denied);
    expect(await stateOf(id)).toMatchObject({ streak: 9, paused: false });
    await side.failAttempt(runIds[9] ?? '', denied);
    const state = await stateOf(id);
    expect(state).toMatchObject({ streak: 10, paused: true });
    expect(state?.reason).toMatch(/^destination\.access_denied: /);
    expect(await levels(id)).toEqual(['WARNING', 'ERROR']);

    const [row] = await side.sql<{ gates: { pausedSince: number | null }[] }>`
      select schedule->'gates' as gates from batch_exports where id = ${id}`;
    expect(row?.gates.at(-1)?.pausedSince).toEqual(expect.any(Number));
  });

  it('is counted once each by ten failures at the same moment, and pauses once', async () => {
    const { id, runIds } = await side.exportWithRuns(12);
    await Promise.all(runIds.map((runId) => side.failAttempt(runId, denied)));
    expect(await stateOf(id)).toMatchObject({ streak: 12, paused: true });
    expect(await levels(id)).toEqual(['WARNING', 'ERROR']);
  });

  it('ends with a success', async () => {
    const { id, runIds } = await side.exportWithRuns(4);
    for (const runId of runIds.slice(0, 3)) await side.failAttempt(runId, denied);
    await side.completeRuns(runIds[3]);
    expect(await stateOf(id)).toMatchObject({ streak: 0, paused: false });
  });

  it('begins anew when the export is unpaused', async () => {
    const { id, runIds } = await side.exportWithRuns(11);
    for (const runId of runIds.slice(0, 10)) await side.failAttempt(runId, denied);
    await unpauseExport(side.context, side.actor, id, { backfill: false, retryMissing: false });
    await side.failAttempt(runIds[10] ?? '', denied);
    expect(await stateOf(id)).toMatchObject({ streak: 1, paused: false });
  });
});

describe('the high-water mark', () => {
  it('stops at a gap, and moves over all that waits behind it once the gap is closed', async () => {
    const { id, runIds } = await side.exportWithRuns(5);
    const runs = await side.listRuns(id);
    await side.completeRuns(runIds[1]);
    expect((await stateOf(id))?.mark).toBeNull();
    await side.completeRuns(runIds[0]);
    expect((await stateOf(id))?.mark).toBe(runs[1]?.end);
    await side.completeRuns(runIds[3]);
    expect((await stateOf(id))?.mark).toBe(runs[1]?.end);
    await side.completeRuns(runIds[2]);
    expect((await stateOf(id))?.mark).toBe(runs[3]?.end);
  });

  it('is right when all intervals complete at the same moment', async () => {
    const { id, runIds } = await side.exportWithRuns(12);
    const claimed = await Promise.all(runIds.map((runId) => side.claim(runId)));
    await Promise.all(claimed.map((run) => side.complete(run)));
    expect((await stateOf(id))?.mark).toBe((await side.listRuns(id)).at(-1)?.end);
  });

  it('does not move back, nor past a run that failed, when an interval before it runs again', async () => {
    const { id, runIds } = await side.exportWithRuns(3);
    const runs = await side.listRuns(id);
    await side.completeRuns(runIds[0]);
    // A destination that worked before is asked twice.
    for (const _ of [1, 2]) await side.failAttempt(runIds[1] ?? '', denied);
    expect((await side.listRuns(id))[1]?.status).toBe('Failed');
    await side.completeRuns(runIds[2]);
    await side.completeRuns(await side.retry({ exportId: id, runId: runIds[0] }));
    expect((await stateOf(id))?.mark).toBe(runs[0]?.end);
  });

  it('does not begin with intervals before the first tick, which only a backfill completes', async () => {
    const { id, schedule } = await side.createExport({ createdMsAgo: 2 * hourMs });
    await side.sql`insert into runs (export_id, team_id, data_interval_start, data_interval_end)
       values (${id}, ${side.teamId}, to_timestamp(${schedule.openIntervalStart} / 1000.0) - interval '1 h',
         to_timestamp(${schedule.openIntervalStart} / 1000.0))`;
    await side.completeRuns((await side.listRuns(id))[0]?.id);
    expect((await stateOf(id))?.mark).toBeNull();
    await side.decide();
    const runs = await side.listRuns(id);
    await side.completeRuns(runs[1]?.id);
    expect((await stateOf(id))?.mark).toBe(runs[1]?.end);
  });

  it('begins at the first tick that ran, not at one outside the window', async () => {
    const startAt = (await readNow(side.db)) - 2 * hourMs;
    const { id } = await side.createExport({ startAt, createdMsAgo: 5 * hourMs });
    await side.decide();
    const fates = await side.sql.values`
      select fate from ticks where export_id = ${id} order by tick_at`;
    expect([fates[0], fates.at(-1)]).toEqual(['outside_window', 'ran']);
    const runs = await side.listRuns(id);
    await side.completeRuns(runs[0]?.id);
    expect((await stateOf(id))?.mark).toBe(runs[0]?.end);
  });
});

it('the receipt of a re-run replaces the one before; there is one per interval', async () => {
  const { id, runIds } = await side.exportWithRuns(1);
  await side.completeRuns(runIds[0]);
  const run = { exportId: id, runId: runIds[0] };
  const receiptRuns = async () =>
    (await listReceipts(side.db, id, null, 10)).map(({ runId }) => runId);
  const again = await side.retry(run);
  await expect(side.retry(run)).rejects.toThrow('is live');
  expect(await receiptRuns()).toEqual([run.runId]);
  await side.completeRuns(again);
  expect(await receiptRuns()).toEqual([again]);
});

const traits: StoreTraits = {
  ifNoneMatch: true,
  ifMatch: 'unquoted',
  completeIfNoneMatch: false,
  completeIfMatch: false,
  checksums: false,
  parts: { equal: true, most: 1_000, bytes: null },
};

describe('what a probe found', () => {
  const place = (exportId: string, destinationVersion = 0) => ({ exportId, destinationVersion });

  it('is kept for the destination that was tried, until it moves, and not for one that was left', async () => {
    const { id } = await side.exportWithRuns(1);
    expect(await findStoreTraits(side.db, place(id))).toBeNull();
    await keepStoreTraits(side.db, place(id), traits);
    expect(await findStoreTraits(side.db, place(id))).toEqual(traits);
    expect(await findStoreTraits(side.db, place(id, 1))).toBeNull();
    await side.db.transaction((tx) => retireDestination(tx, id));
    expect(await findStoreTraits(side.db, place(id))).toBeNull();
    await keepStoreTraits(side.db, place(id), traits);
    expect(await findStoreTraits(side.db, place(id))).toBeNull();
    expect(await findStoreTraits(side.db, place(id, 1))).toBeNull();
  });

  it('is replaced after a run that found a store that had changed, and the log of the run says so', async () => {
    const { id } = await side.exportWithRuns(1);
    await keepStoreTraits(side.db, place(id), traits);
    const entries: string[] = [];
    const log = { add: (level: string, text: string) => void entries.push(`${level} ${text}`) };
    const foundOut = (found: StoreTraits | null) =>
      keepNewTraits(side.db, place(id), traits, { traits: found } as Destination, log);
    await foundOut(traits);
    expect(entries).toEqual([]);
    await foundOut({ ...traits, ifMatch: 'none' });
    expect(await findStoreTraits(side.db, place(id))).toMatchObject({ ifMatch: 'none' });
    const says =
      /^WARNING The store behaved differently than before and was probed again\. .*If-Match/;
    expect(entries).toContainEqual(expect.stringMatching(says));
    entries.length = 0;
    await foundOut(null);
    expect(await findStoreTraits(side.db, place(id))).toBeNull();
    expect(entries).toEqual([
      'WARNING The store behaved differently than before. The next run probes it.',
    ]);
  });

  it('is not used if an earlier release tested less', async () => {
    const { id } = await side.exportWithRuns(1);
    const { checksums: _, ...less } = traits;
    await keepStoreTraits(side.db, place(id), less as StoreTraits);
    expect(await findStoreTraits(side.db, place(id))).toBeNull();
  });

  it('is used for seven days', async () => {
    const { id } = await side.exportWithRuns(1);
    await keepStoreTraits(side.db, place(id), traits);
    const age = (text: string) =>
      side.sql`
        update batch_exports set store_traits_at = now() - ${text}::interval where id = ${id}`;
    await age('6 days 23 hours');
    expect(await findStoreTraits(side.db, place(id))).toEqual(traits);
    await age('7 days 1 second');
    expect(await findStoreTraits(side.db, place(id))).toBeNull();
  });
});

describe('a permanent error', () => {
  const noBucket = new SluiceError('destination.bucket_not_found');
  const away = new SluiceError('destination.unavailable');
  const fail = async (runId: string | undefined, ...errors: readonly SluiceError[]) => {
    for (const error of errors) {
      // Backoff is not what is tested.
      await side.sql`update outbox set available_at = now() where run_id = ${runId}`;
      await side.failAttempt(runId ?? '', error);
    }
  };
  const runOf = async (id: string, at: number) => (await side.listRuns(id))[at];
  const streakOf = (id: string) =>
    side.sql.value`select failure_streak from batch_exports where id = ${id}`;

  async function workingExport(): Promise<{ id: string; runId: string | undefined }> {
    const { id, runIds } = await side.exportWithRuns(2);
    await side.completeRuns(runIds[0]);
    return { id, runId: runIds[1] };
  }

  it('ends the run at once at a destination that never took an interval', async () => {
    const { id, runIds } = await side.exportWithRuns(1);
    await fail(runIds[0], denied);
    expect(await runOf(id, 0)).toMatchObject({ status: 'Failed', attempt: 1 });
  });

  it('ends it at one that did if the next attempt fails the same way, and counts no fault', async () => {
    const { id, runId } = await workingExport();
    await fail(runId, denied);
    const waiting = { status: 'Running', waits: true, faults: 0, errorCode: denied.code };
    expect(await runOf(id, 1)).toMatchObject(waiting);
    expect(await streakOf(id)).toBe(0);
    await fail(runId, denied);
    expect(await runOf(id, 1)).toMatchObject({ status: 'Failed', attempt: 2, faults: 0 });
    expect(await streakOf(id)).toBe(1);
    const entries = await side.sql<{ level: string; message: string }>`
      select level, message from log_entries where run_id = ${runId} order by id`;
    expect(entries.map(({ level }) => level)).toEqual(['WARNING', 'ERROR']);
    expect(entries[0]?.message).toMatch(
      /worked before, so Sluice tries once more in .*destination\.access_denied/,
    );
  });

  it('waits for the second attempt as long as the policy says', async () => {
    const { runId } = await workingExport();
    const context = side.withPolicy({ secondOpinionMs: 10_000 });
    await failAttempt(side, context, runId ?? '', denied);
    const seconds = await side.sql.value`
      select extract(epoch from available_at - last_updated_at)::float8
         from outbox o join runs r on r.id = o.run_id where o.run_id = ${runId}`;
    expect(seconds).toBeCloseTo(10, 3);
  });

  it('must come twice in a row, and is counted if it changes', async () => {
    const { id, runId } = await workingExport();
    await fail(runId, denied, away, denied);
    expect(await runOf(id, 1)).toMatchObject({ status: 'Running', faults: 1 });
    await fail(runId, noBucket, denied);
    expect(await runOf(id, 1)).toMatchObject({ status: 'Running', faults: 3 });
    await fail(runId, denied);
    expect(await runOf(id, 1)).toMatchObject({ status: 'Failed', attempt: 6 });
  });

  it('ends it at once at another destination than the one that worked', async () => {
    const { id, runId } = await workingExport();
    await side.db.transaction((tx) => retireDestination(tx, id));
    await fail(runId, denied);
    expect(await runOf(id, 1)).toMatchObject({ status: 'Failed', attempt: 1 });
  });

  it('is final at once if it is not the destination’s', async () => {
    const { id, runId } = await workingExport();
    await fail(runId, new SluiceError('query.invalid'));
    expect(await runOf(id, 1)).toMatchObject({ status: 'Failed', attempt: 1 });
  });
});
