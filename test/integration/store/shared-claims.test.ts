import { expect, it } from 'vitest';
import { type ClaimedRun, claimFree } from '../../../src/state/store/runs/claims.ts';
import { claimRun } from '../../support/run-verbs.ts';
import { until } from '../../support/until.ts';
import { useRunSide } from '../../support/run-side.ts';

const side = useRunSide();
const leaseMs = 60_000;

const named = (runIds: readonly string[]) => runIds.map((runId) => ({ runId, holder: runId }));

it('claims that are made together have each their own answer', async () => {
  const runs = [await side.waitingRun(), await side.waitingRun(), await side.waitingRun()] as const;
  const [first, ended, last] = runs.map(({ runId }) => runId) as [string, string, string];
  await side.complete(await side.claim(ended));
  const claimed = await claimFree(side.db, named([last, ended, first]), leaseMs);
  expect(claimed.map((run) => run?.runId)).toEqual([last, undefined, first]);
  // Twice in one statement: one of them has it.
  await side.expireLease(first);
  const both = ['a', 'b'].map((holder) => ({ runId: first, holder }));
  const won = await claimFree(side.db, both, leaseMs);
  expect(won.filter((run) => run !== null)).toHaveLength(1);
  expect(await side.firstRun(runs[0].exportId)).toMatchObject({ fence: 2, waits: false });
});

it.each([
  ['a run', `select from runs where id = $1 for update`],
  ["a run's row of the outbox", `select from outbox where run_id = $1 for update`],
])('%s that is locked does not hold up the claims of others', async (_, lock) => {
  const [locked, free] = [await side.waitingRun(), await side.waitingRun()];
  let waiting: Promise<ClaimedRun | null> | undefined;
  await side.db.transaction(async (tx) => {
    await tx.query(lock, [locked.runId]);
    const claimed = await claimFree(side.db, named([locked.runId, free.runId]), leaseMs);
    expect(claimed.map((run) => run?.runId)).toEqual([undefined, free.runId]);
    expect(await side.firstRun(locked.exportId)).toMatchObject({ waits: true });
    waiting = claimRun(side.db, locked.runId, 'w', leaseMs);
    await side.untilLocked();
  });
  expect(await waiting).toMatchObject({ runId: locked.runId, attempt: 1 });
  expect(await side.firstRun(locked.exportId)).toMatchObject({ waits: false });
});

it('a run that is put off while its claim waits stays in the outbox', async () => {
  const { exportId, runId } = await side.waitingRun();
  let waiting: Promise<ClaimedRun | null> | undefined;
  await side.db.transaction(async (tx) => {
    await tx.query(
      `update outbox set available_at = now() + interval '1 hour', ready = false where run_id = $1`,
      [runId],
    );
    waiting = claimRun(side.db, runId, 'w', leaseMs);
    await side.untilLocked();
  });
  expect(await waiting).toBeNull();
  expect(await side.firstRun(exportId)).toMatchObject({ status: 'Starting', waits: true });
});

it('leaves a run that changed after the statement began: it cannot see what else was written', async () => {
  const [slow, changed] = [await side.waitingRun(), await side.waitingRun()];
  const lock = 4_711;
  await side.db.query(
    `create function wait_for_test() returns trigger language plpgsql as
       $$ begin perform pg_advisory_xact_lock(${lock}); return new; end $$`,
  );
  await side.db.query(
    `create trigger wait_for_test before update on runs for each row
       when (new.id = '${slow.runId}') execute function wait_for_test()`,
  );
  const claims = await side.db.transaction(async (tx) => {
    await tx.query(`select pg_advisory_xact_lock(${lock})`);
    const claimed = side.db.transaction(async (claiming) => {
      // Run by run, so that the second is looked at after it has changed.
      await claiming.query(`set local enable_hashjoin = off`);
      await claiming.query(`set local enable_mergejoin = off`);
      return claimFree(claiming, named([slow.runId, changed.runId]), leaseMs);
    });
    await until(async () => {
      const waits = await side.db.query(
        `select from pg_locks where objid = ${lock} and not granted`,
      );
      return waits.length > 0;
    });
    await side.sql`with touched as (update runs set last_updated_at = now() where id = ${changed.runId} returning *)
       insert into leftover_files (export_id, data_interval_start, data_interval_end, destination_version, key,
         generation, uncommitted)
       select export_id, data_interval_start, data_interval_end, 0, 'late', 7, true from touched`;
    return { claimed };
  });
  expect((await claims.claimed).map((run) => run?.runId)).toEqual([slow.runId, undefined]);
  expect(await side.claim(changed.runId)).toMatchObject({ fileGeneration: 8 });
});
