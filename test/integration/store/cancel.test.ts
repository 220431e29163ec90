import { describe, expect, it } from 'vitest';
import type { ClaimedRun } from '../../../src/state/store/runs/claims.ts';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { Refusal } from '../../../src/foundation/domain/problem.ts';
import { renewLeases, sweepExpiredLeases } from '../../../src/state/store/runs/leases.ts';
import { insertRuns } from '../../../src/state/store/runs/runs.ts';
import { deleteExport } from '../../../src/service/use-cases/exports/update-export.ts';
import { recordFault } from '../../../src/service/use-cases/runs/finish-run.ts';
import { emptyCommit, hourMs, useRunSide } from '../../support/run-side.ts';
import { beginCommit, claimRun } from '../../support/run-verbs.ts';
import { until } from '../../support/until.ts';

const side = useRunSide();
const leaseMs = 60_000;

function unlessRefused(error: unknown): void {
  if (!(error instanceof Refusal)) throw error;
}

const fault = new SluiceError('destination.unavailable');
const cancelled = { status: 'Cancelled', waits: false };

describe('cancelling a run', () => {
  it('that has not begun ends it, and no late job starts it any more', async () => {
    const run = await side.waitingRun();
    await side.cancel(run);
    expect(await side.firstRun(run.exportId)).toMatchObject(cancelled);
    expect(await claimRun(side.db, run.runId, 'w', leaseMs)).toBeNull();
  });

  it('that a worker holds takes the lease away: it can neither renew it nor commit', async () => {
    const run = await side.claimed();
    await side.cancel(run);
    expect(await renewLeases(side.db, [run], leaseMs)).toEqual(new Set());
    expect(await beginCommit(side.db, run, leaseMs, {}, emptyCommit)).toBe(false);
    expect(await side.complete(run)).toBe(false);
    expect(await side.firstRun(run.exportId)).toMatchObject(cancelled);
  });

  it('comes too late once it commits: it completes, even if its worker is lost meanwhile', async () => {
    const run = await side.claimed();
    expect(await beginCommit(side.db, run, leaseMs, {}, emptyCommit)).toBe(true);
    await expect(side.cancel(run)).rejects.toThrow('can no longer be cancelled');
    expect(await side.firstRun(run.exportId)).toMatchObject({ status: 'Running' });
    await side.expireLease(run.runId);
    await side.completeRuns(run.runId);
  });

  it('says that its manifest may be current if an attempt died in its commit', async () => {
    const run = await side.claimed();
    await beginCommit(side.db, run, leaseMs, {}, emptyCommit);
    await side.overtake(run.runId);
    await side.cancel(run);
    expect(
      await side.sql.value`
        select message from log_entries where run_id = ${run.runId} and level = 'WARNING'`,
    ).toMatch(/its manifest may be current/);
  });

  it.each<[string, (run: ClaimedRun) => Promise<unknown>]>([
    ['that waits for its next attempt', (run) => recordFault(side.context, run, fault, 0.5)],
    ['whose lease ran out', ({ runId }) => side.expireLease(runId)],
    [
      'whose lease ran out and was swept',
      async ({ runId }) => {
        await side.expireLease(runId);
        await sweepExpiredLeases(side.db);
      },
    ],
  ])('%s ends it, and leaves nothing in the outbox', async (_, leave) => {
    const run = await side.claimed();
    await leave(run);
    await side.cancel(run);
    await sweepExpiredLeases(side.db);
    expect(await side.firstRun(run.exportId)).toMatchObject(cancelled);
  });

  it('races with its claim, its end and the sweep without a deadlock or a row left behind', async () => {
    for (let round = 0; round < 10; round += 1) {
      const run = await side.claimed();
      if (round % 2 === 0) await side.expireLease(run.runId);
      await Promise.all([
        side.cancel(run).catch(unlessRefused),
        sweepExpiredLeases(side.db),
        side.complete(run),
        claimRun(side.db, run.runId, 'other', leaseMs),
      ]);
      // Whichever won, a late job sees the current state and clears what is stale.
      await claimRun(side.db, run.runId, 'last', leaseMs);
      expect((await side.firstRun(run.exportId)).waits).toBe(false);
    }
  });
});

describe('deleting an export', () => {
  it('cancels its runs in every state and its backfills', async () => {
    const { id } = await side.exportWithRuns(3);
    const [, second, third] = await side.listRuns(id);
    await side.claim(second?.id);
    await recordFault(side.context, await side.claim(third?.id), fault, 0.5);
    await side.sql`insert into backfills (export_id, team_id, start_at, end_at, concurrency, total_runs)
       values (${id}, ${side.teamId}, now() - interval '9 h', now() - interval '8 h', 1, 1)`;
    await deleteExport(side.context, side.actor, id);
    for (const run of await side.listRuns(id)) expect(run).toMatchObject(cancelled);
    const backfills = await side.sql`select status from backfills where export_id = ${id}`;
    expect(backfills).toEqual([{ status: 'Cancelled' }]);
  });

  it('while its runs complete neither deadlocks nor leaves one live', async () => {
    const { id } = await side.exportWithRuns(8);
    const claimed = await Promise.all((await side.listRuns(id)).map((run) => side.claim(run.id)));
    await Promise.all([
      ...claimed.map((run) => side.complete(run)),
      deleteExport(side.context, side.actor, id),
    ]);
    for (const run of await side.listRuns(id)) {
      expect(['Completed', 'Cancelled']).toContain(run.status);
    }
  });

  it('while a worker makes runs of its backfill waits for them, without a deadlock', async () => {
    const { id } = await side.createExport();
    const [backfill] = await side.sql<{ id: string }>`
      insert into backfills (export_id, team_id, start_at, end_at, concurrency, total_runs)
       values (${id}, ${side.teamId}, now() - interval '9 h', now() - interval '8 h', 1, 1) returning id`;
    const backfillId = backfill?.id ?? '';
    const deleting = await side.db.transaction(async (tx) => {
      await tx.query('select from backfills where id = $1 for no key update', [backfillId]);
      const deletion = deleteExport(side.context, side.actor, id);
      await until(async () => {
        const waiting =
          await side.sql`select from pg_stat_activity where datname = current_database()
              and wait_event_type = 'Lock' and query like 'update backfills%'`;
        return waiting.length > 0;
      });
      const interval = { start: 0, end: hourMs };
      await insertRuns(tx, [{ exportId: id, teamId: side.teamId, interval, backfillId }]);
      return { deletion };
    });
    await deleting.deletion;
    expect(await side.firstRun(id)).toMatchObject(cancelled);
  });
});
