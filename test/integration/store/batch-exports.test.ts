import { describe, expect, it, test } from 'vitest';
import { findExportDetails } from '../../../src/state/store/exports/export-lists.ts';
import { lockExport } from '../../../src/state/store/exports/exports.ts';
import { changeExport } from '../../../src/service/use-cases/exports/activity.ts';
import {
  claim,
  complete,
  createExportOfThePast,
  decide,
  hourMs,
  listRuns,
} from '../../support/run-side.ts';
import { useRunSide } from '../../support/use-run-side.ts';

const side = useRunSide();
const actor = () => ({ organizationId: side.tenant.organizationId, keyId: null });

/** An export with failures behind it, updated; its failure streak after that. */
async function streakAfterUpdate(given: {
  readonly paused: boolean;
  readonly pausedAfter: boolean;
  readonly transformations: boolean;
}): Promise<number> {
  const { id } = await createExportOfThePast(side, { paused: given.paused });
  await side.db.query('update batch_exports set failure_streak = 7 where id = $1', [id]);
  const updated = await side.db.transaction(async (tx) => {
    const before = await lockExport(tx, id);
    if (!before) throw new Error('the export is gone');
    const { pausedAfter: paused, transformations } = given;
    const settings = { ...before, paused, transformations };
    return changeExport(tx, actor(), 'updated', before, settings);
  });
  return updated.failureStreak;
}

describe('updating an export', () => {
  it.each([true, false])(
    'starts the failure streak again if it ends a pause, with transformations %s',
    async (transformations) => {
      const streak = await streakAfterUpdate({ paused: true, pausedAfter: false, transformations });
      expect(streak).toBe(0);
    },
  );

  it.each([true, false])(
    'keeps the failure streak of an export that stays paused, with transformations %s',
    async (transformations) => {
      const streak = await streakAfterUpdate({ paused: true, pausedAfter: true, transformations });
      expect(streak).toBe(7);
    },
  );

  it('keeps the failure streak of an export that runs', async () => {
    const given = { paused: false, pausedAfter: false, transformations: false };
    expect(await streakAfterUpdate(given)).toBe(7);
  });

  it('writes each setting into its own column', async () => {
    const { id } = await createExportOfThePast(side);
    const changed = {
      name: 'Another name',
      destination: { type: 'NoOp', config: { a: 1 }, secrets: Buffer.from('sealed') },
      cadence: {
        interval: 'week',
        timezone: 'Asia/Tokyo',
        offsetDay: 3,
        offsetHour: 5,
      },
      dslQuery: 'SELECT event FROM events',
      querySchema: { fields: [] },
      transformations: true,
      paused: true,
      lastPausedAt: '2024-03-01T00:00:00.000000Z',
      pausedReason: 'a reason',
      pausedCode: 'a.code',
      startAt: '2024-03-02T00:00:00.000000Z',
      endAt: '2024-03-03T00:00:00.000000Z',
    } as const;
    const before = await side.db.transaction((tx) => lockExport(tx, id));
    if (!before) throw new Error('the export is gone');
    await changeExport(side.db, actor(), 'updated', before, { ...before, ...changed });
    expect(await side.db.transaction((tx) => lockExport(tx, id))).toMatchObject(changed);
  });
});

test('the latest runs of a page come with the oldest unsettled interval of each export', async () => {
  const [unsettled, settled, idle] = await Promise.all([
    createExportOfThePast(side, { createdMsAgo: 2 * hourMs }),
    createExportOfThePast(side, { createdMsAgo: 2 * hourMs }),
    createExportOfThePast(side, { createdMsAgo: 0 }),
  ]);
  await decide(side.context);
  for (const { id } of [unsettled, settled]) {
    for (const run of await listRuns(side.db, id)) {
      await complete(side.context, await claim(side, run.id));
    }
  }
  await side.db.query('update receipts set settled = false where export_id = $1', [unsettled.id]);
  const ids = [unsettled.id, settled.id, idle.id];
  const details = await findExportDetails(side.db, ids);
  const first = unsettled.schedule.openIntervalStart;
  expect(ids.map((id) => details.get(id)?.holes.unsettledFrom)).toEqual([first, null, null]);
  expect(ids.map((id) => details.get(id)?.latestRuns)).toMatchObject([
    [{ exportId: unsettled.id }, { exportId: unsettled.id }],
    [{ exportId: settled.id }, { exportId: settled.id }],
    [],
  ]);
  const [newest, oldest] = details.get(unsettled.id)?.latestRuns ?? [];
  expect(Date.parse(newest?.createdAt ?? '')).toBeGreaterThanOrEqual(
    Date.parse(oldest?.createdAt ?? ''),
  );
});
