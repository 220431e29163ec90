import { describe, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { pauseExport, unpauseExport } from '../../../src/service/use-cases/exports/pause-export.ts';
import { disableTenant } from '../../../src/service/use-cases/tenants/change-tenants.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { findCommit } from '../../../src/state/store/files/known-commits.ts';
import { listReceipts } from '../../../src/state/store/intervals/receipts.ts';
import { quarantineRun } from '../../../src/service/use-cases/runs/finish-run.ts';
import { nothing, openLateSide } from '../../support/late-side.ts';
import { failAttempt, hourMs, type RunSide } from '../../support/run-side.ts';
import { useEach } from '../../support/use-stage.ts';

describe('late rows of an export that fails or is paused', () => {
  const side = useEach(openLateSide);

  const hours = (lateLookbackHours: number) =>
    side.withPolicy({ lateLookbackHours, retry: { maxAttempts: 1, baseMs: 1, capMs: 1 } });
  const letLooksBeDue = async () => {
    await side.letTimePass();
    await side.sql`update receipts set look_after = now() where look_after is not null`;
    await side.sql`update batch_exports set last_updated_at = now() - interval '1 day'`;
  };
  const look = (context: RunSide['context'], mayHaveLateRows: boolean) =>
    side.look(context, async () => ({ now: nothing, mayHaveLateRows }));
  const liveRuns = async (id: string) =>
    (await side.listRuns(id)).filter(({ status }) => status === 'Starting');

  /** An interval that ended more than an hour ago. */
  async function exported(): Promise<string> {
    const now = await readNow(side.db);
    const endAt = Math.floor(now / hourMs) * hourMs - hourMs;
    const createdMsAgo = now - endAt + hourMs / 2;
    const { id } = await side.createExport({ createdMsAgo, endAt });
    await side.start({ LATE_LOOKBACK_HOURS: '6' });
    await side.untilRuns(id, 1);
    await side.closeWorker();
    await letLooksBeDue();
    return id;
  }

  it('are looked for within the hours of the export, else of its model, else of the installation', async () => {
    const id = await exported();
    const cases = [
      [null, {}, 0, 0],
      [null, {}, 3, 3],
      [null, { events: 5 }, 3, 5],
      [null, { events: 0 }, 3, 0],
      [null, { orders: 0 }, 3, 3],
      [6, { events: 0 }, 0, 6],
      [0, { events: 5 }, 3, 0],
    ] as const;
    for (const [own, modelLookbackHours, lateLookbackHours, hours] of cases) {
      await side.sql`update batch_exports set look_back_hours = ${own} where id = ${id}`;
      await letLooksBeDue();
      await side.sql`update receipts set look_owed = false`;
      const taken = await side.take(lateLookbackHours, modelLookbackHours);
      const [receipt] = await listReceipts(side.db, id, null, 1);
      if (!receipt) throw new Error('there is no receipt');
      const usual = { lateLookbackHours, modelLookbackHours };
      const { isLookedAt } = await findCommit(side.db, id, receipt.interval, usual);
      const found = [taken.map(({ lookBackHours }) => lookBackHours), isLookedAt];
      expect(found).toEqual([hours === 0 ? [] : [hours], hours > 0]);
    }
  });

  describe('and whose run fails', () => {
    it('are looked for again until they are added, also when the time of the look-back is over', async () => {
      const id = await exported();
      await look(hours(6), true);
      const [run] = await liveRuns(id);
      await side.sql`update runs set crashes = 2 where id = ${run?.id}`;
      await failAttempt(side, hours(6), run?.id ?? '', new SluiceError('destination.unavailable'));
      expect(await side.take(6), 'a minute has not passed').toEqual([]);
      // An hour is over by the clock.
      await letLooksBeDue();
      await look(hours(1), true);
      const [again] = await side.sql<{ heals: boolean; crashes: number }>`
        select heals, crashes from runs where export_id = ${id} and status = 'Starting'`;
      expect(again, 'it heals, as intervals do').toEqual({ heals: true, crashes: 2 });
      const [second] = await liveRuns(id);
      const away = new SluiceError('destination.unavailable');
      await failAttempt(side, hours(1), second?.id ?? '', away);
      await letLooksBeDue();
      await look(hours(1), false);
      await letLooksBeDue();
      expect(await side.take(1), 'a look has ended it').toEqual([]);
    });

    it('are looked for after the clock of our database was set back', async () => {
      await exported();
      await side.sql`
        update receipts set pending_checked_at = now() + interval '1 day', looked_back_at = now() + interval '1 day'`;
      expect(await side.take(6)).toHaveLength(1);
      await side.sql`
        update receipts set settled = false, pending_checked_at = now() + interval '1 day'`;
      expect(await side.take(0)).toHaveLength(1);
    });

    it('wait for a person if the run ends its processes', async () => {
      const id = await exported();
      await look(hours(6), true);
      const [run] = await liveRuns(id);
      await quarantineRun(hours(6), await side.claim(run?.id), 'SIGSEGV.');
      await letLooksBeDue();
      expect(await side.take(6)).toEqual([]);
      expect(await side.sql.value`select late_rows_code from receipts`).toBe('run.crashed');
      await side.sql`update batch_exports set last_updated_at = now()`;
      expect(await side.take(6), 'the export was changed').toHaveLength(1);
    });
  });

  describe('and is paused', () => {
    const tenant = () => ({ organizationId: side.tenant.organizationId, teamId: null });
    const disable = (disabled: boolean) => disableTenant(side.context, tenant(), disabled, null);
    const pauses: Record<
      string,
      { begin(id: string): Promise<unknown>; end(id: string): Promise<unknown> }
    > = {
      'by a person': {
        begin: (id) => pauseExport(side.context, side.actor, id),
        end: (id) =>
          unpauseExport(side.context, side.actor, id, { backfill: false, retryMissing: false }),
      },
      'with its organization': { begin: () => disable(true), end: () => disable(false) },
      'with its organization, after it was paused by Sluice': {
        async begin() {
          await side.sql`
            update batch_exports set paused = true, paused_reason = 'failed', paused_code = 'failures',
              last_paused_at = now()`;
          await disable(true);
        },
        end: () => disable(false),
      },
    };

    it.each(Object.entries(pauses))(
      '%s are looked for afterwards, also when the time of the look-back is over',
      async (_, { begin, end }) => {
        const id = await exported();
        await begin(id);
        expect(await side.take(6)).toEqual([]);
        // An hour is over by the clock.
        await letLooksBeDue();
        await look(hours(1), true);
        expect(await liveRuns(id)).toEqual([]);
        await end(id);
        await letLooksBeDue();
        await look(hours(1), true);
        expect(await liveRuns(id)).toHaveLength(1);
      },
    );

    it('while they are searched make no run until it is unpaused', async () => {
      const id = await exported();
      const { begin, end } = pauses['by a person'] as (typeof pauses)[string];
      await side.look(hours(6), async () => {
        await begin(id);
        return { now: nothing, mayHaveLateRows: true };
      });
      expect(await liveRuns(id)).toEqual([]);
      await end(id);
      await letLooksBeDue();
      await look(hours(6), true);
      expect(await liveRuns(id)).toHaveLength(1);
    });
  });

  it('are asked for less and less often while the source of their export does not answer', async () => {
    const { id } = await side.createExport({ createdMsAgo: 12 * hourMs });
    await side.start({ LATE_LOOKBACK_HOURS: '24' });
    await side.untilRuns(id, 12);
    await side.closeWorker();
    await side.letTimePass();
    let asked = 0;
    const lookNow = () =>
      side.look(hours(24), async () => {
        asked += 1;
        throw new SluiceError('source.unavailable');
      });
    await lookNow();
    expect(asked).toBe(6);
    await side.letTimePass();
    await side.sql`update receipts set look_after = null`;
    await lookNow();
    expect(asked, 'the export waits').toBe(6);
    await side.sql`update batch_exports set look_after = now()`;
    await lookNow();
    expect(asked).toBe(7);
  });
});
