import { describe, expect, it } from 'vitest';
import { type ClaimedRun, claimFree } from '../../../src/state/store/runs/claims.ts';
import { claimRun } from '../../support/run-verbs.ts';
import { until } from '../../support/until.ts';
import { useRunSide } from '../../support/run-side.ts';
import {
  beginFreeCommits,
  type BegunCommit,
  completeFree,
  type CompletionOutcome,
} from '../../../src/state/store/runs/completions.ts';
import {
  openDatabase,
  type Sql,
  type Transactor,
} from '../../../src/state/store/database/database.ts';
import { RunStatements } from '../../../src/state/store/runs/run-statements.ts';
import { RunLog } from '../../../src/service/worker/run-log.ts';
import { openPorts } from '../../../src/service/worker/attempt.ts';
import { testServer } from '../../support/database.ts';
import { completedRun } from '../../support/completed-run.ts';

const side = useRunSide();
const leaseMs = 60_000;

/** An export with runs that are claimed. */
async function claimedRuns(count: number): Promise<ClaimedRun[]> {
  const { id } = await side.exportWithRuns(count);
  return Promise.all((await side.listRuns(id)).map((run) => side.claim(run.id)));
}

async function stateOf({ runId, exportId }: ClaimedRun) {
  const [row] = await side.sql<{ status: string; logged: number }>`
    select status, committing_generation as committing,
            (select count(*)::int from receipts c where c.run_id = r.id) as receipts,
            (select count(*)::int from leftover_files l where l.export_id = r.export_id
              and l.data_interval_start = r.data_interval_start) as leftovers,
            (select count(*)::int from log_entries l where l.export_id = ${exportId} and l.run_id = r.id) as logged
       from runs r where id = ${runId}`;
  return row;
}

const markOf = (run: ClaimedRun | undefined) =>
  side.sql.value`
    select floor(extract(epoch from high_water_mark) * 1000)::bigint from batch_exports
      where id = ${run?.exportId}`;

/** Calls `work` while another transaction holds what `lock` locks. */
function whileLocked<T>(lock: string, id: string, work: () => Promise<T>): Promise<T> {
  return side.db.transaction(async (tx) => {
    await tx.query(lock, [id]);
    return work();
  });
}

const exportLock = `select from batch_exports where id = $1 for no key update`;
const runLock = `select from runs where id = $1 for no key update`;
const commitOf = (run: ClaimedRun): BegunCommit => {
  const { runId, fileGeneration: generation } = run;
  const files = [{ key: runId }];
  return { run, intent: { generation, manifestKey: `${runId}.json`, files, rejectedFiles: [] } };
};

describe('claims that are made together', () => {
  const named = (runIds: readonly string[]) => runIds.map((runId) => ({ runId, holder: runId }));

  it('have each their own answer', async () => {
    const { exportId, runId: first } = await side.waitingRun();
    const [{ runId: ended }, { runId: last }] = [await side.waitingRun(), await side.waitingRun()];
    await side.completeRuns(ended);
    const claimed = await claimFree(side.db, named([last, ended, first]), leaseMs);
    expect(claimed.map((run) => run?.runId)).toEqual([last, undefined, first]);
    // Twice in one statement: one of them has it.
    await side.expireLease(first);
    const both = ['a', 'b'].map((holder) => ({ runId: first, holder }));
    expect((await claimFree(side.db, both, leaseMs)).filter((run) => run !== null)).toHaveLength(1);
    expect(await side.firstRun(exportId)).toMatchObject({ fence: 2, waits: false });
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
      `create function wait_with_claim() returns trigger language plpgsql as
       $$ begin perform pg_advisory_xact_lock(${lock}); return new; end $$`,
    );
    await side.db.query(
      `create trigger wait_with_claim before update on runs for each row
       when (new.id = '${slow.runId}') execute function wait_with_claim()`,
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
});

describe('runs that complete together', () => {
  const record = (runs: readonly ClaimedRun[], sql: Sql = side.db) => {
    const completed = runs.map((run) => completedRun(run));
    return completeFree(sql, completed);
  };
  const done: CompletionOutcome = { isCompleted: true, leavesFiles: false };

  it('move the mark of each export over all of its intervals', async () => {
    const [one, two] = [await claimedRuns(4), await claimedRuns(2)];
    const mixed = [one[3], two[0], one[0], two[1], one[2]].filter((run) => run !== undefined);
    expect(await record(mixed)).toEqual(mixed.map(() => expect.objectContaining(done)));
    // The second interval of the first export is missing.
    expect([await markOf(one[0]), await markOf(two[0])]).toEqual([
      one[0]?.interval.end,
      two[1]?.interval.end,
    ]);
    await record(one.slice(1, 2));
    expect(await markOf(one[0])).toBe(one[3]?.interval.end);
    for (const run of [...one, ...two]) {
      expect(await stateOf(run)).toMatchObject({ status: 'Completed', receipts: 1, logged: 1 });
    }
  });

  it('leave out one whose lease is lost, with its receipt, its log and its mark', async () => {
    const runs = await claimedRuns(3);
    const [first, lost, last] = runs as [ClaimedRun, ClaimedRun, ClaimedRun];
    await side.overtake(lost.runId);
    const outcomes = await record(runs);
    expect(outcomes.map((outcome) => outcome?.isCompleted)).toEqual([true, false, true]);
    expect(await stateOf(lost)).toMatchObject({ status: 'Running', receipts: 0, logged: 0 });
    expect(await stateOf(last)).toMatchObject({ status: 'Completed', receipts: 1, logged: 1 });
    expect(await markOf(first)).toBe(first.interval.end);
  });

  it.each([
    ['run', runLock, (run: ClaimedRun) => run.runId],
    ['export', exportLock, (run: ClaimedRun) => run.exportId],
  ])('do not wait for a %s that another transaction has locked', async (_, lock, idOf) => {
    const [locked, free] = [await claimedRuns(1), await claimedRuns(1)];
    const [held] = locked as [ClaimedRun];
    const outcomes = await whileLocked(lock, idOf(held), () => record([...locked, ...free]));
    expect(outcomes).toEqual([null, expect.objectContaining(done)]);
    expect(await stateOf(held)).toMatchObject({ status: 'Running', receipts: 0, logged: 0 });
    expect(await record(locked)).toEqual([expect.objectContaining(done)]);
  });
});

describe('completions of an export that another transaction has locked', () => {
  const complete = (runs: readonly ClaimedRun[], statements: RunStatements) =>
    Promise.all(runs.map((run) => statements.complete(completedRun(run))));
  /** Sessions of ours that wait for a lock. */
  const countWaiting = async () =>
    (
      await side.sql`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    ).length;

  it('wait for it together, and hold up no other export', async () => {
    const [held, others] = [await claimedRuns(5), await claimedRuns(2)];
    const statements = new RunStatements(side.db, leaseMs);
    const [first] = held as [ClaimedRun];
    const [done] = await whileLocked(exportLock, first.exportId, async () => {
      const waiting = complete(held, statements);
      await side.untilLocked();
      expect(await complete(others, statements)).not.toContain(null);
      expect(await countWaiting()).toBe(1);
      return [waiting];
    });
    expect(await done).not.toContain(null);
    for (const run of [...held, ...others])
      expect(await stateOf(run)).toMatchObject({ status: 'Completed', receipts: 1 });
    expect(await markOf(first)).toBe(held.at(-1)?.interval.end);
  });

  it('no longer lock it when they come after those that had to', async () => {
    const [first, ...others] = (await claimedRuns(6)) as [ClaimedRun, ...ClaimedRun[]];
    let transactions = 0;
    const counted: Transactor = {
      query: (sql, values) => side.db.query(sql, values),
      transaction: (work) => {
        transactions += 1;
        return side.db.transaction(work);
      },
    };
    const statements = new RunStatements(counted, leaseMs);
    const [waiting] = await whileLocked(exportLock, first.exportId, async () => {
      const all = [complete([first], statements)];
      await side.untilLocked();
      all.push(complete(others, statements));
      return [Promise.all(all)];
    });
    expect((await waiting)?.flat()).not.toContain(null);
    expect(transactions).toBe(1);
  });

  it('count a run whose lease is lost as not recorded', async () => {
    const [run, lost] = (await claimedRuns(2)) as [ClaimedRun, ClaimedRun];
    await side.overtake(lost.runId);
    const statements = new RunStatements(side.db, leaseMs);
    const [waiting] = await whileLocked(exportLock, run.exportId, async () => {
      const all = complete([run, lost], statements);
      await side.untilLocked();
      return [all];
    });
    const [recorded, notRecorded] = (await waiting) ?? [];
    expect([recorded?.leavesFiles, notRecorded]).toEqual([false, null]);
  });
});

it('a completion is left out if its export changed after the statement began', async () => {
  const [first, second] = (await claimedRuns(2)) as [ClaimedRun, ClaimedRun];
  const lock = 4_712;
  // A role that must wait for the test before it sees an export. Others bypass the policy.
  const role = `waits_${first.runId.slice(0, 8)}`;
  await side.admin.query(`create role ${role} role ${testServer().owner.name}`);
  await side.db.query(`grant all on all tables in schema public to ${role}`);
  await side.db.query(`grant all on all sequences in schema public to ${role}`);
  await side.db.query(
    `create function wait_for_test() returns boolean language plpgsql volatile as
       $$ begin perform pg_advisory_xact_lock(${lock}); return true; end $$`,
  );
  await side.sql`alter table batch_exports enable row level security`;
  await side.db.query(`create policy wait on batch_exports to ${role} using (wait_for_test())`);
  const { completing } = await side.db.transaction(async (tx) => {
    await tx.query(`select pg_advisory_xact_lock(${lock})`);
    const waiting = side.db.transaction(async (own) => {
      await own.query(`set local role ${role}`);
      return completeFree(own, [completedRun(second)]);
    });
    await until(async () => {
      const waits = await tx.query(`select from pg_locks where objid = ${lock} and not granted`);
      return waits.length > 0;
    });
    expect(await completeFree(side.db, [completedRun(first)])).toMatchObject([
      { isCompleted: true },
    ]);
    return { completing: waiting };
  });
  expect(await completing).toEqual([null]);
  await completeFree(side.db, [completedRun(second)]);
  expect(await markOf(first)).toBe(second.interval.end);
  await side.admin.query(
    `drop policy wait on batch_exports; drop owned by ${role}; drop role ${role}`,
  );
});

describe('commits that begin together', () => {
  it('begin each under its own lease, and note the keys of those that begin', async () => {
    const [held, lost] = (await claimedRuns(2)) as [ClaimedRun, ClaimedRun];
    await side.overtake(lost.runId);
    expect(await beginFreeCommits(side.db, [held, lost].map(commitOf), leaseMs)).toEqual([
      true,
      false,
    ]);
    expect(await stateOf(held)).toMatchObject({ committing: 1, leftovers: 2 });
    expect(await stateOf(lost)).toMatchObject({ committing: null, leftovers: 0 });
  });

  it('do not wait for a run that another transaction has locked, which begins alone', async () => {
    const [locked, free] = (await claimedRuns(2)) as [ClaimedRun, ClaimedRun];
    const begun = await whileLocked(runLock, locked.runId, () =>
      beginFreeCommits(side.db, [locked, free].map(commitOf), leaseMs),
    );
    expect(begun).toEqual([null, true]);
    expect(await new RunStatements(side.db, leaseMs).beginCommit(commitOf(locked))).toBe(true);
    expect(await stateOf(locked)).toMatchObject({ committing: 1, leftovers: 2 });
  });

  it('write nothing for a run without keys: nothing becomes readable', async () => {
    const [run] = (await claimedRuns(1)) as [ClaimedRun];
    const statements = new RunStatements(side.db, leaseMs);
    const { ports } = openPorts(side.context, statements, run, new RunLog(side.db, run, () => {}));
    const intent = { files: [], rejectedFiles: [], manifestKey: null, generation: 1 };
    await ports.confirmCommit(intent as unknown as Parameters<typeof ports.confirmCommit>[0]);
    expect(await stateOf(run)).toMatchObject({ committing: null, leftovers: 0 });
  });

  it('name a fault of our own database, which the destination must not take for its own', async () => {
    const [run] = (await claimedRuns(1)) as [ClaimedRun];
    const gone = openDatabase({
      connectionString: 'postgres://sluice@127.0.0.1:1/sluice',
      applicationName: 'test',
      maxConnections: 1,
      writes: true,
      onError: () => {},
    });
    const statements = new RunStatements(gone, leaseMs);
    const context = { ...side.context, db: gone };
    const { ports } = openPorts(context, statements, run, new RunLog(gone, run, () => {}));
    const intent = { files: [], rejectedFiles: [], manifestKey: 'm', generation: 1 };
    const asked = [
      ports.journal.starting(),
      ports.journal.sent('a', 1, 1_000_000),
      ports.lease.extend(true),
      ports.confirmCommit(intent as unknown as Parameters<typeof ports.confirmCommit>[0]),
    ];
    for (const { reason } of (await Promise.allSettled(asked)) as PromiseRejectedResult[])
      expect(reason).toMatchObject({ code: 'internal.database_unavailable' });
    await gone.close();
  });
});
