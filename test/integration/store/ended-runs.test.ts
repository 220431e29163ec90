import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { readinessOf } from '../../../src/main/readiness.ts';
import { dispatchRuns } from '../../../src/service/admission/admission.ts';
import { deleteExport } from '../../../src/service/use-cases/exports/update-export.ts';
import { quarantineRun, recordFault } from '../../../src/service/use-cases/runs/finish-run.ts';
import type { ClaimedRun } from '../../../src/state/store/runs/claims.ts';
import { renewLeases, sweepExpiredLeases } from '../../../src/state/store/runs/leases.ts';
import { findStalledDispatch, removeEndedEntries } from '../../../src/state/store/runs/outbox.ts';
import { beginWork } from '../../../src/state/store/files/guarded-work.ts';
import { reportWorker, sumCapacity, sweepWorkers } from '../../../src/state/store/runs/workers.ts';
import { endSilentCommits } from '../../../src/state/store/tenants/tenant-rows.ts';
import { findLostRuns } from '../../support/lost-runs.ts';
import { emptyCommit, hourMs, useRunSide } from '../../support/run-side.ts';
import { beginCommit, claimRun } from '../../support/run-verbs.ts';
import { Refusal } from '../../../src/foundation/domain/problem.ts';
import { insertRuns } from '../../../src/state/store/runs/runs.ts';
import { until } from '../../support/until.ts';

const side = useRunSide();
beforeEach(async () => {
  await side.sql`delete from outbox`;
  await side.sql`delete from workers`;
  await side.sql`
    update runs set status = 'Cancelled', finished_at = now() where finished_at is null`;
});

/** A run whose worker sleeps, and which the sweep has re-enqueued. */
async function sleepingRun(): Promise<ClaimedRun> {
  const { id } = await side.exportWithRuns(1);
  const run = await side.claim((await side.firstRun(id)).id);
  await side.expireLease(run.runId);
  expect(await sweepExpiredLeases(side.db)).toBe(1);
  return run;
}

const entries = () => side.sql`select from outbox`;

/** Every way in which a run ends. */
const ends: readonly (readonly [string, (run: ClaimedRun) => Promise<unknown>])[] = [
  ['completes', (run) => side.complete(run)],
  [
    'fails',
    (run) => recordFault(side.context, run, new SluiceError('destination.access_denied'), 0),
  ],
  [
    'fails after its last attempt',
    async (run) => {
      await side.sql`update runs set faults = 99 where id = ${run.runId}`;
      const used = { ...run, faults: 99 };
      await recordFault(side.context, used, new SluiceError('destination.unavailable'), 0);
    },
  ],
  ['is set aside', (run) => quarantineRun(side.context, run, 'SIGSEGV')],
  ['is cancelled', (run) => side.cancel(run)],
  [
    'is deleted with its export',
    ({ exportId }) => deleteExport(side.context, side.actor, exportId),
  ],
  [
    'is ended by the deletion of its tenant',
    async (run) => {
      await beginCommit(side.db, run, 60_000, {}, emptyCommit);
      await side.expireLease(run.runId);
      const tenant = { organizationId: side.tenant.organizationId, teamId: null };
      await side.db.transaction((tx) => endSilentCommits(tx, tenant));
    },
  ],
];

describe('a run that the sweep re-enqueued while its worker slept', () => {
  it.each(ends)('leaves the outbox when it %s', async (_, end) => {
    const run = await sleepingRun();
    expect(await entries()).toHaveLength(1);
    await end(run);
    expect(await side.sql`select from runs where finished_at is null`).toEqual([]);
    expect(await entries()).toEqual([]);
  });

  it('leaves it too if it completes at the moment of the sweep', async () => {
    const { id } = await side.exportWithRuns(1);
    const run = await side.claim((await side.firstRun(id)).id);
    await side.expireLease(run.runId);
    const { completing } = await side.db.transaction(async (tx) => {
      await sweepExpiredLeases(tx);
      const waiting = side.complete(run);
      // The completion has begun, and sees nothing of the sweep yet.
      await side.untilLocked();
      return { completing: waiting };
    });
    expect([await completing, await entries()]).toEqual([true, []]);
  });
});

it('a dispatcher that enqueues nothing for minutes is noticed, unless workers are busy or there are none', async () => {
  const { id } = await side.exportWithRuns(1);
  const { id: runId } = await side.firstRun(id);
  const stalled = () => findStalledDispatch(side.db, 300);
  const ago = `now() - interval '10 minutes'`;
  await side.db.query(`update outbox set ready = true, available_at = ${ago}`);
  await side.db.query(`update installation set taken_at = ${ago}`);
  expect(await stalled()).toBeNull();
  await reportWorker(side.db, 'one', 1);
  expect(await stalled()).toBe(600);
  const run = await side.claim(runId);
  await side.db.query(
    `insert into outbox (run_id, team_id, export_id, data_interval_start, ready, available_at)
     select id, team_id, export_id, data_interval_start, true, ${ago} from runs`,
  );
  expect(await stalled()).toBeNull();
  await side.expireLease(run.runId);
  expect(await stalled()).toBe(600);
  await dispatchRuns(side.context, async () => {});
  expect(await stalled()).toBeNull();
});

it('what died before the clock of our database was set back by a day is not waited for', async () => {
  const day = `now() + interval '1 day'`;
  const { id } = await side.exportWithRuns(1);
  const { id: runId } = await side.firstRun(id);
  await side.claim(runId);
  await side.db.query(`update runs set lease_expires_at = ${day}`);
  await sweepExpiredLeases(side.db);
  expect(await sweepExpiredLeases(side.db)).toBe(1);
  expect(await side.claim(runId)).toMatchObject({ crashes: 1 });

  await reportWorker(side.db, 'dead', 1);
  await reportWorker(side.db, 'alive', 1);
  await side.db.query(`update workers set heartbeat_at = ${day} where id = 'dead'`);
  await sweepWorkers(side.db);
  expect(await sumCapacity(side.db)).toBe(1);

  const work = { kind: 'look_back', id: 'export' } as const;
  const begin = (holder: string) => beginWork(side.db, work, holder, 60_000, false);
  expect([await begin(randomUUID()), await begin(randomUUID())]).toEqual(['begun', 'busy']);
  await side.db.query(`update guarded_work set expires_at = ${day}`);
  expect(await begin(randomUUID())).toBe('begun');
});

it('readiness says if no worker decides schedules and dispatches runs, also if nothing waits', async () => {
  const queue = { inspect: async () => [], findRefusal: async () => null };
  const parts = { context: side.context, queues: queue, producer: { listPaused: async () => [] } };
  const foundation = parts as unknown as Parameters<typeof readinessOf>[0];
  const said = async () => (await readinessOf(foundation, () => null, true)()).checks.workers;
  await reportWorker(side.db, 'one', 1, 0, 70);
  expect(await said()).toMatch(/^workers report, but none has decided schedules .* for 70 s;/);
  await reportWorker(side.db, 'two', 1, 0, 1);
  expect(await said()).toBe('ok');
});

describe('an outbox row of an ended run, if there were one', () => {
  /** As a build without the trigger would leave it. */
  async function strayEntry(): Promise<void> {
    const run = await sleepingRun();
    await side.sql`update outbox set dispatched_at = now() - interval '1 minute'`;
    await side.admin.query(
      `begin; set local session_replication_role = replica;
       update runs set status = 'Completed', finished_at = now() where id = '${run.runId}'; commit`,
    );
  }

  it('takes no room in the queue, and is no reason to enqueue the run again', async () => {
    await reportWorker(side.db, 'one', 1);
    await strayEntry();
    await strayEntry();
    const { id } = await side.exportWithRuns(1);
    const enqueued: string[] = [];
    await dispatchRuns(side.context, async (some) => {
      enqueued.push(...some.map(({ runId }) => runId));
    });
    expect(enqueued).toEqual([(await side.firstRun(id)).id]);
  });

  it('is found by the check of lost runs, and removed by the sweep', async () => {
    await strayEntry();
    expect(await findLostRuns(side.db, null)).toMatchObject([
      { why: expect.stringMatching(/ended/) },
    ]);
    expect([await removeEndedEntries(side.db), await entries()]).toEqual([1, []]);
    expect(await findLostRuns(side.db, null)).toEqual([]);
  });

  it('is not the only way to lose a run: one that nothing would start is found as well', async () => {
    const { id } = await side.exportWithRuns(1);
    expect(await findLostRuns(side.db, id)).toEqual([]);
    await side.sql`delete from outbox`;
    expect(await findLostRuns(side.db, id)).toMatchObject([
      { why: expect.stringMatching(/start/) },
    ]);
  });
});

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
