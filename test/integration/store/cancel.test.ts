import { describe, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { Refusal } from '../../../src/foundation/domain/problem.ts';
import { renewLeases, sweepExpiredLeases } from '../../../src/state/store/runs/leases.ts';
import { findRun, insertRuns } from '../../../src/state/store/runs/runs.ts';
import { deleteExport } from '../../../src/service/use-cases/exports/delete-export.ts';
import { cancelRun } from '../../../src/service/use-cases/runs/cancel-work.ts';
import { recordFault } from '../../../src/service/use-cases/runs/finish-run.ts';
import {
  claim,
  complete,
  createExportOfThePast,
  decide,
  emptyCommit,
  expireLease,
  firstRun,
  hourMs,
  listRuns,
} from '../../support/run-side.ts';
import { beginCommit, claimRun } from '../../support/run-verbs.ts';
import { until } from '../../support/until.ts';
import { useRunSide } from '../../support/use-run-side.ts';

const side = useRunSide();
const leaseMs = 60_000;

async function waitingRun(): Promise<{ exportId: string; runId: string }> {
  const { id } = await createExportOfThePast(side);
  await decide(side.context);
  return { exportId: id, runId: (await firstRun(side.db, id)).id };
}

async function cancel(exportId: string, runId: string): Promise<void> {
  const run = await findRun(side.db, exportId, runId);
  if (!run) throw new Error('the run is gone');
  await cancelRun(side.context, run);
}

function unlessRefused(error: unknown): void {
  if (!(error instanceof Refusal)) throw error;
}

const cancelled = { status: 'Cancelled', waits: false };

describe('cancelling a run', () => {
  it('that has not begun ends it, and no late job starts it any more', async () => {
    const { exportId, runId } = await waitingRun();
    await cancel(exportId, runId);
    expect(await firstRun(side.db, exportId)).toMatchObject(cancelled);
    expect(await claimRun(side.db, runId, 'w', leaseMs)).toBeNull();
  });

  it('that waits for its next attempt ends it', async () => {
    const { exportId, runId } = await waitingRun();
    const fault = new SluiceError('destination.unavailable');
    await recordFault(side.context, await claim(side, runId), fault, 0.5);
    await cancel(exportId, runId);
    expect(await firstRun(side.db, exportId)).toMatchObject(cancelled);
  });

  it('that a worker holds takes the lease away: it can neither renew it nor commit', async () => {
    const { exportId, runId } = await waitingRun();
    const run = await claim(side, runId);
    await cancel(exportId, runId);
    expect(await renewLeases(side.db, [run], leaseMs)).toEqual(new Set());
    expect(await beginCommit(side.db, run, leaseMs, {}, emptyCommit)).toBe(false);
    expect(await complete(side.context, run)).toBe(false);
    expect(await firstRun(side.db, exportId)).toMatchObject(cancelled);
  });

  it('comes too late once it commits: it completes, even if its worker is lost meanwhile', async () => {
    const { exportId, runId } = await waitingRun();
    const run = await claim(side, runId);
    expect(await beginCommit(side.db, run, leaseMs, {}, emptyCommit)).toBe(true);
    await expect(cancel(exportId, runId)).rejects.toThrow('can no longer be cancelled');
    expect(await firstRun(side.db, exportId)).toMatchObject({ status: 'Running' });
    await expireLease(side.db, runId);
    expect(await complete(side.context, await claim(side, runId))).toBe(true);
  });

  it('says that its manifest may be current if an attempt died in its commit', async () => {
    const { exportId, runId } = await waitingRun();
    const run = await claim(side, runId);
    await beginCommit(side.db, run, leaseMs, {}, emptyCommit);
    await expireLease(side.db, runId);
    await claim(side, runId);
    await cancel(exportId, runId);
    const [entry] = await side.db.query<{ message: string }>(
      `select message from log_entries where run_id = $1 and level = 'WARNING'`,
      [runId],
    );
    expect(entry?.message).toMatch(/its manifest may be current/);
  });

  it('whose lease ran out ends it, swept or not, and leaves nothing in the outbox', async () => {
    for (const swept of [true, false]) {
      const { exportId, runId } = await waitingRun();
      await claim(side, runId);
      await expireLease(side.db, runId);
      if (swept) await sweepExpiredLeases(side.db);
      await cancel(exportId, runId);
      await sweepExpiredLeases(side.db);
      expect(await firstRun(side.db, exportId)).toMatchObject(cancelled);
    }
  });

  it('races with its claim, its end and the sweep without a deadlock or a row left behind', async () => {
    for (let round = 0; round < 10; round += 1) {
      const { exportId, runId } = await waitingRun();
      const run = await claim(side, runId);
      if (round % 2 === 0) await expireLease(side.db, runId);
      await Promise.all([
        cancel(exportId, runId).catch(unlessRefused),
        sweepExpiredLeases(side.db),
        complete(side.context, run),
        claimRun(side.db, runId, 'other', leaseMs),
      ]);
      // Whichever won, a late job sees the current state and clears what is stale.
      await claimRun(side.db, runId, 'last', leaseMs);
      const after = await firstRun(side.db, exportId);
      expect(after.waits).toBe(false);
    }
  });
});

describe('deleting an export', () => {
  it('cancels its runs in every state and its backfills', async () => {
    const { id } = await createExportOfThePast(side, { createdMsAgo: 3 * hourMs });
    await decide(side.context);
    const [, second, third] = await listRuns(side.db, id);
    await claim(side, second?.id ?? '');
    await recordFault(
      side.context,
      await claim(side, third?.id ?? ''),
      new SluiceError('destination.unavailable'),
      0.5,
    );
    await side.db.query(
      `insert into backfills (export_id, team_id, start_at, end_at, concurrency, total_runs)
       values ($1, $2, now() - interval '9 h', now() - interval '8 h', 1, 1)`,
      [id, side.teamId],
    );
    const actor = { organizationId: side.tenant.organizationId, keyId: null };
    await deleteExport(side.context, actor, id);
    for (const run of await listRuns(side.db, id)) expect(run).toMatchObject(cancelled);
    const backfills = await side.db.query(`select status from backfills where export_id = $1`, [
      id,
    ]);
    expect(backfills).toEqual([{ status: 'Cancelled' }]);
  });

  it('while its runs complete neither deadlocks nor leaves one live', async () => {
    const { id } = await createExportOfThePast(side, { createdMsAgo: 8 * hourMs });
    await decide(side.context);
    const claimed = await Promise.all(
      (await listRuns(side.db, id)).map((run) => claim(side, run.id)),
    );
    const actor = { organizationId: side.tenant.organizationId, keyId: null };
    await Promise.all([
      ...claimed.map((run) => complete(side.context, run)),
      deleteExport(side.context, actor, id),
    ]);
    for (const run of await listRuns(side.db, id)) {
      expect(['Completed', 'Cancelled']).toContain(run.status);
    }
  });

  it('while a worker makes runs of its backfill waits for them, without a deadlock', async () => {
    const { id } = await createExportOfThePast(side);
    const [backfill] = await side.db.query<{ id: string }>(
      `insert into backfills (export_id, team_id, start_at, end_at, concurrency, total_runs)
       values ($1, $2, now() - interval '9 h', now() - interval '8 h', 1, 1) returning id`,
      [id, side.teamId],
    );
    const backfillId = backfill?.id ?? '';
    const actor = { organizationId: side.tenant.organizationId, keyId: null };
    const deleting = await side.db.transaction(async (tx) => {
      await tx.query('select from backfills where id = $1 for no key update', [backfillId]);
      const deletion = deleteExport(side.context, actor, id);
      await until(async () => {
        const waiting = await side.db.query(
          `select from pg_stat_activity where datname = current_database()
              and wait_event_type = 'Lock' and query like 'update backfills%'`,
        );
        return waiting.length > 0;
      });
      const interval = { start: 0, end: hourMs };
      await insertRuns(tx, [{ exportId: id, teamId: side.teamId, interval, backfillId }]);
      return { deletion };
    });
    await deleting.deletion;
    expect(await firstRun(side.db, id)).toMatchObject(cancelled);
  });
});
