import { beforeAll, beforeEach, describe, expect, it, test } from 'vitest';
import { findExportDetails } from '../../../src/state/store/exports/export-lists.ts';
import { lockExport } from '../../../src/state/store/exports/exports.ts';
import { changeExport } from '../../../src/service/use-cases/exports/activity.ts';
import { exportOfThePast, hourMs, openRunSide, useRunSide } from '../../support/run-side.ts';
import {
  joinTransaction,
  type Sql,
  type Transactor,
} from '../../../src/state/store/database/database.ts';
import { insertProject } from '../../../src/state/store/tenants/tenants.ts';
import { storeExport } from '../../support/store-export.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

const side = useRunSide();

describe('updating an export', () => {
  it.each([
    ['starts again if it ends a pause', true, false, false, 0],
    ['starts again if it ends a pause, with transformations', true, false, true, 0],
    ['goes on if it stays paused', true, true, false, 7],
    ['goes on if it stays paused, with transformations', true, true, true, 7],
    ['goes on if it runs', false, false, false, 7],
  ])('its failure streak %s', async (_, before, paused, transformations, streak) => {
    const { id } = await side.createExport({ paused: before });
    await side.sql`update batch_exports set failure_streak = 7 where id = ${id}`;
    const updated = await side.db.transaction(async (tx) => {
      const locked = await lockExport(tx, id);
      if (!locked) throw new Error('the export is gone');
      const settings = { ...locked, paused, transformations };
      return changeExport(tx, side.actor, 'updated', locked, settings);
    });
    expect(updated.failureStreak).toBe(streak);
  });

  it('writes each setting into its own column', async () => {
    const { id } = await side.createExport();
    const changed = {
      name: 'Another name',
      destination: { type: 'NoOp', config: { a: 1 }, secrets: Buffer.from('sealed') },
      cadence: { interval: 'week', timezone: 'Asia/Tokyo', offsetDay: 3, offsetHour: 5 },
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
    await changeExport(side.db, side.actor, 'updated', before, { ...before, ...changed });
    expect(await side.db.transaction((tx) => lockExport(tx, id))).toMatchObject(changed);
  });
});

test('the latest runs of a page come with the oldest unsettled interval of each export', async () => {
  const [unsettled, settled, idle] = await Promise.all([
    side.createExport({ createdMsAgo: 2 * hourMs }),
    side.createExport({ createdMsAgo: 2 * hourMs }),
    side.createExport({ createdMsAgo: 0 }),
  ]);
  await side.decide();
  for (const { id } of [unsettled, settled]) {
    await side.completeRuns(...(await side.listRuns(id)).map((run) => run.id));
  }
  await side.sql`update receipts set settled = false where export_id = ${unsettled.id}`;
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

describe('the limit of a project', () => {
  let teamId: number;
  /** Creations that are farther from the limit do not wait. */
  let distance: number;

  const side = useStage(openRunSide);
  beforeAll(async () => {
    const [row] = await side.sql<{ distance: number }>`
      select 3 * current_setting('max_connections')::int as distance`;
    distance = row?.distance ?? 0;
  });

  beforeEach(async () => {
    const { organizationId } = side.tenant;
    ({ id: teamId } = await insertProject(side.db, { organizationId, name: 'Limited' }));
  });

  async function addExports(sql: Sql, count: number): Promise<void> {
    await sql.query(
      `insert into batch_exports (team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at)
     select $1, 'n' || n, 'NoOp', '{}', 'hour', '{}', now() from generate_series(1, $2::int) n`,
      [teamId, count],
    );
  }

  /** @returns false if the project is full */
  async function createOne(db: Transactor, maximum: number): Promise<boolean> {
    return (await storeExport(db, await exportOfThePast({ db, teamId }), maximum)) !== null;
  }

  /** A transaction that creates an export if there is room, and ends when `end` is called. */
  function creation(maximum: number) {
    let finish = (): void => {};
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    let ended: Promise<void> = Promise.resolve();
    const answered = new Promise<boolean>((resolve, reject) => {
      ended = side.db.transaction(async (tx) => {
        resolve(await createOne(joinTransaction(tx), maximum));
        await finished;
      });
      ended.catch(reject);
    });
    answered.catch(() => {});
    const end = (): Promise<void> => {
      finish();
      return ended;
    };
    return { answered, end };
  }

  const creationsWait = (count: number) =>
    until(async () => {
      const rows = await side.sql`
        select from pg_locks where locktype = 'advisory' and objid = ${teamId} and not granted`;
      return rows.length === count;
    });

  it('far from the limit, a creation does not wait for another one of the project', async () => {
    const first = creation(distance + 2);
    const second = creation(distance + 2);
    expect(await Promise.all([first.answered, second.answered])).toEqual([true, true]);
    await Promise.all([first.end(), second.end()]);
  });

  it('near the limit, a creation waits for the one before it', async () => {
    const first = creation(1);
    expect(await first.answered).toBe(true);
    const second = creation(1);
    await creationsWait(1);
    await first.end();
    expect(await second.answered).toBe(false);
    await second.end();
  });

  it.each([1, 2])(
    'a creation near the limit waits for one that began far from it: %i are left',
    async (left) => {
      const maximum = distance + 2;
      const early = creation(maximum);
      expect(await early.answered).toBe(true);
      await addExports(side.db, maximum - left);
      const late = creation(maximum);
      await creationsWait(1);
      await early.end();
      // It counts what the early one has added.
      expect(await late.answered).toBe(left === 2);
      await late.end();
      expect(await createOne(side.db, maximum)).toBe(false);
    },
  );

  it('creations at once near the limit fill it, and no more', async () => {
    const maximum = 3;
    const answers = await Promise.all(Array.from({ length: 8 }, () => createOne(side.db, maximum)));
    expect(answers.filter((isCreated) => isCreated)).toHaveLength(maximum);
  });
});
