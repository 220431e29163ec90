import { beforeEach, describe, expect, it } from 'vitest';
import { listDeliveries } from '../../../src/state/store/notifications/notification-deliveries.ts';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { findBatchExport } from '../../../src/state/store/exports/exports.ts';
import { startBackfill } from '../../../src/service/use-cases/backfills/start-backfill.ts';
import { deleteExport } from '../../../src/service/use-cases/exports/update-export.ts';
import { pauseExport } from '../../../src/service/use-cases/exports/pause-export.ts';
import { deliveriesOf, forgetNotifications, useNotified } from '../../support/notified.ts';
import { failAttempt } from '../../support/run-side.ts';
import { advanceBackfill } from '../../support/run-verbs.ts';
import { createTenant } from '../../support/tenants.ts';

const denied = new SluiceError('destination.access_denied');
const away = new SluiceError('destination.unavailable');
const { side, types, webhook } = useNotified({ secondOpinionMs: 0 });
beforeEach(() => webhook());

/** All attempts of the run meet transient errors. */
async function exhaust(runId = ''): Promise<void> {
  const context = side.withPolicy({ retry: { maxAttempts: 1, baseMs: 0, capMs: 0 } });
  await failAttempt(side, context, runId, away);
}

describe('an export', () => {
  it('notifies once that it fails, and once that it works again', async () => {
    const { id, runIds } = await side.exportWithRuns(5);
    await side.completeRuns(runIds[0]);
    expect(await types()).toEqual([]);
    for (const run of [runIds[1], runIds[2]]) {
      // A destination that worked before is asked twice.
      for (const _ of [1, 2]) await side.failAttempt(run ?? '', denied);
    }
    expect(await types()).toEqual(['export.failing']);
    await side.completeRuns(runIds[3], runIds[4]);
    const all = await deliveriesOf(side.db);
    expect(all.map(({ type }) => type)).toEqual(['export.failing', 'export.recovered']);
    expect(all[0]?.facts).toMatchObject({
      export: { id, name: 'An export' },
      run: { id: runIds[1], attempt: 2 },
      error: { code: 'destination.access_denied' },
    });
    expect(all[1]?.facts).toMatchObject({ missing_intervals: 2 });
  });

  it('notifies that retries are exhausted, not also that it fails', async () => {
    const { runIds } = await side.exportWithRuns(3);
    await exhaust(runIds[0]);
    await exhaust(runIds[1]);
    expect(await types()).toEqual(['export.retries_exhausted']);
    await side.completeRuns(runIds[2]);
    expect(await types()).toEqual(['export.retries_exhausted', 'export.recovered']);
  });

  it('notifies that it fails those who do not ask for exhausted retries', async () => {
    await forgetNotifications(side.db);
    await webhook({ events: ['export.failing'] });
    await exhaust((await side.exportWithRuns(1)).runIds[0]);
    expect(await types()).toEqual(['export.failing']);
  });

  it('notifies that Sluice paused it, not that a person did', async () => {
    for (const run of (await side.exportWithRuns(10)).runIds) await side.failAttempt(run, denied);
    expect(await types()).toEqual(['export.failing', 'export.paused']);
    const paused = (await deliveriesOf(side.db))[1];
    expect(paused?.facts).toMatchObject({ failure_streak: 10 });
    expect(String(paused?.facts.reason)).toMatch(/^destination\.access_denied/);
    const { id } = await side.exportWithRuns(1);
    await pauseExport(side.context, side.actor, id);
    expect(await types()).toHaveLength(2);
  });

  it('notifies of nothing once it is deleted', async () => {
    const { id, runIds } = await side.exportWithRuns(1);
    const run = await side.claim(runIds[0]);
    await side.sql`update runs set committing_at = now() where id = ${run.runId}`;
    await deleteExport(side.context, side.actor, id);
    await side.sql`update runs set status = 'Failed', finished_at = now() where id = ${run.runId}`;
    expect(await types()).toEqual([]);
  });

  it('writes the event in the transaction of the change', async () => {
    const { runIds } = await side.exportWithRuns(1);
    const rolledBack = side.db.transaction(async (tx) => {
      const db = {
        ...side.db,
        transaction: async <T>(work: (own: typeof tx) => Promise<T>) => work(tx),
      };
      await failAttempt(side, { ...side.context, db }, runIds[0] ?? '', denied);
      const [seen] = await tx.query<{ n: number }>(
        'select count(*) as n from notification_deliveries',
      );
      expect(seen?.n).toBe(1);
      throw new Error('rolled back');
    });
    await expect(rolledBack).rejects.toThrow('rolled back');
    expect(await types()).toEqual([]);
  });
});

it('a backfill notifies that it has ended, with its runs', async () => {
  const { id } = await side.exportWithRuns(2);
  const runs = await side.listRuns(id);
  await side.completeRuns(...runs.map((run) => run.id));
  const reach = { organizationId: side.tenant.organizationId, teamId: null };
  const batchExport = await findBatchExport(side.db, reach, id);
  if (!batchExport) throw new Error('the export is gone');
  const { backfillId } = await startBackfill(side.context, batchExport, {
    startAt: Date.parse(runs[0]?.start ?? ''),
    endAt: Date.parse(runs[1]?.end ?? ''),
    order: 'oldest_first',
    reprocess: 'all',
    concurrency: 2,
  });
  await advanceBackfill(side.context, backfillId);
  const made = (await side.listRuns(id)).filter((run) => run.backfillId === backfillId);
  expect(made).toHaveLength(2);
  await side.completeRuns(...made.map((run) => run.id));
  await advanceBackfill(side.context, backfillId);
  const [ended] = await deliveriesOf(side.db);
  expect(ended?.type).toBe('backfill.completed');
  expect(ended?.facts).toMatchObject({
    backfill: { id: backfillId, total_runs: 2, failed_runs: 0 },
  });
});

describe('a target', () => {
  it('hears of its own project, or of all of its organization, and of no other', async () => {
    await forgetNotifications(side.db);
    const [first, second] = side.tenant.projectIds;
    const other = await createTenant(side.db);
    const ofAll = await webhook();
    const ofSecond = await webhook({ teamId: second });
    await webhook({ organizationId: other.organizationId });
    for (const team of [first, second]) {
      const { runIds } = await side.exportWithRuns(1, team);
      await side.failAttempt(runIds[0] ?? '', denied);
    }
    const heard = (await deliveriesOf(side.db)).map(({ targetId }) => targetId).sort();
    expect(heard).toEqual([ofAll.target.id, ofAll.target.id, ofSecond.target.id].sort());
  });

  it('that 500 deliveries wait for loses no news of any export', async () => {
    await forgetNotifications(side.db);
    await webhook();
    const [first, second] = [await side.exportWithRuns(1), await side.exportWithRuns(1)];
    await happen(first.id, 'backfill.completed', 500);
    await happen(second.id, 'export.recovered', 1);
    await happen(second.id, 'export.failing', 3);
    const all = await deliveriesOf(side.db);
    const ofFirst = all.filter(({ exportId }) => exportId === first.id);
    expect(new Set(ofFirst.map(({ status }) => status))).toEqual(new Set(['waiting']));
    const ofSecond = all.filter(({ exportId }) => exportId === second.id);
    expect(ofSecond.map(({ type, status, facts }) => [type, status, facts.n])).toEqual([
      ['export.recovered', 'waiting', 1],
      ['export.failing', 'replaced', 1],
      ['export.failing', 'replaced', 2],
      ['export.failing', 'waiting', 3],
    ]);
  });

  it.each([
    ['json', 30],
    ['slack', 20],
  ] as const)('of format %s gets %i of 30 events of a type at once', async (format, sent) => {
    await forgetNotifications(side.db);
    const { target } = await webhook({ format });
    const { id } = await side.exportWithRuns(1);
    await happen(id, 'export.failing', 30);
    await happen(id, 'export.recovered', 1);
    const waiting = (await deliveriesOf(side.db)).filter(({ status }) => status === 'waiting');
    expect(waiting.map(({ facts }) => facts.n)).toEqual([
      ...Array.from({ length: sent }, (_, index) => index + 1),
      1,
    ]);
    const log = await listDeliveries(side.db, target.id, 'replaced', null, 50);
    expect(log.results).toHaveLength(30 - sent);
    expect(log.results.every(({ nextAttemptAt }) => nextAttemptAt === null)).toBe(true);
    // Later events are news again.
    await side.sql`
      update notification_deliveries set created_at = created_at - interval '6 minutes'`;
    await happen(id, 'export.failing', 1);
    expect((await deliveriesOf(side.db)).at(-1)?.status).toBe('waiting');
  });

  const happen = (id: string, type: string, times: number) =>
    side.sql`
      select notify_targets(${id}, ${type}, jsonb_build_object('n', n))
        from generate_series(1, ${times}::int) n order by n`;
});
