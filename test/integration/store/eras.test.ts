import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { acceptCurrentEra } from '../../../src/service/use-cases/installation/accept-era.ts';
import type { Database } from '../../../src/state/store/database/database.ts';
import { currentEra, findHold, listEras } from '../../../src/state/store/database/eras.ts';
import { createTestDatabase, type TestDatabase, testServer } from '../../support/database.ts';
import { openTestPool, useRunSide } from '../../support/run-side.ts';
import { firstByDay } from '../../support/nightly.ts';
import { renewLeases } from '../../../src/state/store/runs/leases.ts';
import { enqueueRuns } from '../../../src/state/store/runs/outbox.ts';

let database: TestDatabase;
let db: Database;
beforeEach(async () => {
  database = await createTestDatabase();
  db = openTestPool(database.url);
});
afterEach(async () => {
  await db.close();
  await database.drop();
});

/** What `pg_restore --clean` does to a table. */
const restoreInPlace = () =>
  db.query(`do $$ begin
    alter table eras rename to before_restore;
    create table eras (like before_restore including all);
    insert into eras select * from before_restore;
    drop table before_restore;
  end $$`);

describe('the current era', () => {
  it('is made once by the first of many who ask, and stays', async () => {
    expect(await listEras(db)).toEqual([]);
    const asked = await Promise.all(Array.from({ length: 20 }, () => currentEra(db)));
    expect(new Set(asked.map(({ id }) => id)).size).toBe(1);
    expect(await currentEra(db)).toEqual(asked[0]);
    expect(asked[0]).toMatchObject({ number: 1, held: false });
    expect(await findHold(db)).toBeNull();
    expect(await db.transaction((tx) => currentEra(tx))).toEqual(asked[0]);
    // It knows where its tables are.
    const number = expect.any(Number);
    expect(await listEras(db)).toMatchObject([
      {
        ...{ timeline: number, databaseOid: number, erasOid: number, acceptedAt: null },
        systemIdentifier: expect.stringMatching(/^\d+$/),
      },
    ]);
  });

  it('is a new one after a failover, and work goes on', async () => {
    const before = await currentEra(db);
    await db.query('update eras set timeline = timeline + 7');
    const after = await currentEra(db);
    expect(after).toMatchObject({ number: 2, held: false });
    expect(after.id).not.toBe(before.id);
    expect((await listEras(db))[1]?.reason).toMatch(/failed over.*the timeline \(8 → 1\)/);
  });

  const moves = firstByDay(1, [
    ['system_identifier', `update eras set system_identifier = '1'`],
    ['timeline and database_oid', 'update eras set database_oid = 1, timeline = 9'],
    ['database_oid', 'update eras set database_oid = 1'],
  ]);
  it.each(moves)('is held if the %s differs', async (_, change) => {
    await currentEra(db);
    await db.query(change);
    const asked = await Promise.all(Array.from({ length: 5 }, () => currentEra(db)));
    for (const era of asked) expect(era).toMatchObject({ number: 2, held: true });
    expect(await findHold(db)).toMatch(/restored from a dump, or copied.*sluice eras accept/);
  });

  it('is held after a restore into the same database, over a failover, until an operator accepts it', async () => {
    await currentEra(db);
    await restoreInPlace();
    expect(await currentEra(db)).toMatchObject({ number: 2, held: true });
    await db.query('update eras set timeline = 5 where number = 2');
    expect(await currentEra(db)).toMatchObject({ number: 3, held: true });
    expect(await acceptCurrentEra(db)).toMatchObject({ number: 3 });
    expect(await currentEra(db)).toMatchObject({ number: 3, held: false });
    const { acceptedAt: first } = (await listEras(db))[2] ?? {};
    await acceptCurrentEra(db);
    expect((await listEras(db))[2]?.acceptedAt).not.toBe(first);
    const changes = [{ field: 'accepted', before: false, after: true }];
    const accepted = { action: 'accepted', subject_type: 'era', changes };
    const activity = await db.query(`select action, subject_type, changes from activity`);
    expect(activity).toEqual([accepted, accepted]);
  });

  it('compares nothing that this role may not ask', async () => {
    const role = `limited_${randomBytes(4).toString('hex')}`;
    await currentEra(db);
    await database.adminSql`revoke execute on function pg_control_system() from public`;
    await database.admin.query(`create role ${role} role ${testServer().owner.name}`);
    await db.query(`grant select, insert on eras to ${role}`);
    try {
      const era = await db.transaction(async (tx) => {
        await tx.query(`set local role ${role}`);
        expect(await tx.query('select system_identifier from read_place()')).toEqual([
          { system_identifier: null },
        ]);
        return currentEra(tx);
      });
      expect(era).toMatchObject({ number: 1, held: false });
    } finally {
      await database.admin.query(`drop owned by ${role}; drop role ${role}`);
    }
  });
});

const side = useRunSide();
const leaseMs = 60_000;

const state = (exportId: string) => side.firstRun(exportId);

/** What a backup that was made before the claim of a run has of it, with the fence that its next claim gets. */
const restored = {
  'that no worker has claimed since': `with restored as (
     update runs set status = 'Starting', attempt = 0, fence = fence - 1, lease_holder = null, lease_expires_at = null
      where id = $1 returning id, team_id, export_id, backfill_id, data_interval_start, purpose
   ) ${enqueueRuns('restored')}`,
  // The last: it ends every lease of this database.
  'after a restore or a failover': 'update runs set fence = fence - 1 where id = $1',
};

it.each(Object.entries(restored))(
  'a fence of a lost history fits no run %s',
  async (_, restore) => {
    await currentEra(side.db);
    const { exportId, runId } = await side.waitingRun();
    const lost = await side.claim(runId);
    await side.db.query(restore, [runId]);
    await side.sql`update eras set timeline = coalesce(timeline, 0) + 7`;
    await currentEra(side.db);
    const holder = await side.claim(runId);
    expect(holder.fence).not.toBe(lost.fence);
    expect(await renewLeases(side.db, [lost], leaseMs)).toEqual(new Set());
    expect([await side.complete(lost), await side.complete(holder)]).toEqual([false, true]);
    expect(await state(exportId)).toMatchObject({ status: 'Completed' });
  },
);
