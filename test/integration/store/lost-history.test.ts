import { expect, it } from 'vitest';
import { currentEra } from '../../../src/state/store/database/eras.ts';
import { renewLeases } from '../../../src/state/store/runs/leases.ts';
import { enqueueRuns } from '../../../src/state/store/runs/outbox.ts';
import {
  claim,
  complete,
  createExportOfThePast,
  decide,
  firstRun,
} from '../../support/run-side.ts';
import { useRunSide } from '../../support/use-run-side.ts';

const side = useRunSide();
const leaseMs = 60_000;

async function waitingRun(): Promise<{ exportId: string; runId: string }> {
  const { id } = await createExportOfThePast(side);
  await decide(side.context);
  return { exportId: id, runId: (await firstRun(side.db, id)).id };
}

const state = (exportId: string) => firstRun(side.db, exportId);

it('a fence of a lost history fits no run that no worker has claimed since', async () => {
  await currentEra(side.db);
  const { exportId, runId } = await waitingRun();
  const lost = await claim(side, runId);
  // As a backup has it that was made before the claim.
  await side.db.query(
    `with restored as (
       update runs set status = 'Starting', attempt = 0, fence = fence - 1, lease_holder = null, lease_expires_at = null
        where id = $1 returning id, team_id, export_id, backfill_id, data_interval_start, purpose
     ) ${enqueueRuns('restored')}`,
    [runId],
  );
  await side.db.query('update eras set timeline = coalesce(timeline, 0) + 7');
  await currentEra(side.db);
  const holder = await claim(side, runId);
  expect(holder.fence).not.toBe(lost.fence);
  expect(await renewLeases(side.db, [lost], leaseMs)).toEqual(new Set());
  expect(await complete(side.context, lost)).toBe(false);
  expect(await complete(side.context, holder)).toBe(true);
  expect(await state(exportId)).toMatchObject({ status: 'Completed' });
});

// The last: it ends every lease of this database.
it('a fence of a lost history fits no run after a restore or a failover', async () => {
  await currentEra(side.db);
  const { exportId, runId } = await waitingRun();
  const lost = await claim(side, runId);
  // As a backup has it that was made before the claim.
  await side.db.query(`update runs set fence = fence - 1 where id = $1`, [runId]);
  await side.db.query('update eras set timeline = coalesce(timeline, 0) + 7');
  await currentEra(side.db);
  const holder = await claim(side, runId);
  expect(holder.fence).not.toBe(lost.fence);
  expect(await renewLeases(side.db, [lost], leaseMs)).toEqual(new Set());
  expect(await complete(side.context, lost)).toBe(false);
  expect(await complete(side.context, holder)).toBe(true);
  expect(await state(exportId)).toMatchObject({ status: 'Completed' });
});
