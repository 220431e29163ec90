import { randomUUID } from 'node:crypto';
import { beforeEach, expect, it } from 'vitest';
import { reportWorker } from '../../src/state/store/runs/workers.ts';
import { Admission, type ComingRun, dispatchRuns } from '../../src/service/admission/admission.ts';
import { Crowd } from '../../src/service/admission/reading-turns.ts';
import type { AttemptReport } from '../../src/service/worker/attempt-end.ts';
import type { HandlerOptions } from '../../src/service/worker/options.ts';
import { createHandlers } from '../../src/service/worker/run-jobs.ts';
import { RunStatements } from '../../src/state/store/runs/run-statements.ts';
import { claim, createExportOfThePast, openRunSide } from '../support/run-side.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { useEach } from '../support/use-stage.ts';

/** Slots that one organization cannot take, whatever its stores do to its runs. */

const side = useEach(() => openRunSide());
let other: Tenant;
beforeEach(async () => {
  other = await createTenant(side.db);
});

/** Each export has one run that waits. */
async function addExports(count: number, teamId = side.teamId): Promise<void> {
  for (let made = 0; made < count; made += 1) {
    const { id } = await createExportOfThePast(side, { teamId });
    await side.db.query(
      `with r as (
         insert into runs (export_id, team_id, data_interval_start, data_interval_end)
         values ($1, $2, now() - interval '2 hours', now() - interval '1 hour') returning *
       )
       insert into outbox (run_id, team_id, export_id, data_interval_start, available_at)
       select id, team_id, export_id, data_interval_start, now() from r`,
      [id, teamId],
    );
  }
}

/** So many runs of one more export wait. */
async function addRuns(count: number): Promise<void> {
  const { id } = await createExportOfThePast(side);
  await side.db.query(
    `with r as (
       insert into runs (export_id, team_id, data_interval_start, data_interval_end)
       select $1, $2, now() - n * interval '1 hour', now() - (n - 1) * interval '1 hour'
         from generate_series(1, $3) n returning *
     )
     insert into outbox (run_id, team_id, export_id, data_interval_start, available_at)
     select id, team_id, export_id, data_interval_start, now() from r`,
    [id, side.teamId, count],
  );
}

async function dispatch(crowd?: Crowd): Promise<string[]> {
  const enqueued: string[] = [];
  const enqueue = async (entries: readonly { readonly runId: string }[]) => {
    enqueued.push(...entries.map(({ runId }) => runId));
  };
  await dispatchRuns(side.context, enqueue, crowd);
  return enqueued;
}

async function teamsOf(runIds: readonly string[]): Promise<number[]> {
  const rows = await side.sql<{ teamId: number }>`select team_id as "teamId" from runs
    where id = any (${runIds}::uuid[]) order by 1`;
  return rows.map(({ teamId }) => teamId);
}

it('the projects of one organization together leave that slot too', async () => {
  await reportWorker(side.db, randomUUID(), 4);
  for (const teamId of side.tenant.projectIds) await addExports(10, teamId);
  const first = await dispatch();
  expect(first).toHaveLength(3);
  // Each project has its turn.
  expect(new Set(await teamsOf(first))).toEqual(new Set(side.tenant.projectIds));
  for (const runId of first) await claim(side, runId);
  expect(await dispatch()).toEqual([]);
  await addExports(1, other.projectIds[0]);
  expect(await teamsOf(await dispatch())).toEqual([other.projectIds[0]]);
});

it('a second project gives an organization no second turn', async () => {
  await reportWorker(side.db, randomUUID(), 4);
  for (const teamId of side.tenant.projectIds) await addExports(10, teamId);
  await addExports(10, other.projectIds[0]);
  const teams = await teamsOf(await dispatch());
  expect(teams).toHaveLength(6);
  expect(teams.filter((teamId) => teamId === other.projectIds[0])).toHaveLength(3);
});

it('runs of a flooded project are not counted for another organization', async () => {
  await reportWorker(side.db, randomUUID(), 4);
  await addExports(1);
  // More of one export than may run, and more than one look takes: they are read per export.
  await addRuns(250);
  const first = await dispatch();
  expect(first).toHaveLength(3);
  for (const runId of first) await claim(side, runId);
  expect(await dispatch()).toEqual([]);
});

it('two tenants share all slots of the workers', async () => {
  await reportWorker(side.db, randomUUID(), 2);
  await reportWorker(side.db, randomUUID(), 2);
  await addExports(10);
  await addExports(10, other.projectIds[0]);
  const teams = await teamsOf(await dispatch());
  // Three each: one to execute and two that wait in the queue, or the other way round.
  expect(teams).toHaveLength(6);
  expect(new Set(teams).size).toBe(2);
});

it('a tenant has all of fewer than four slots', async () => {
  await reportWorker(side.db, randomUUID(), 3);
  await addExports(10);
  expect(await dispatch()).toHaveLength(6);
});

it('while the processors have too much to do, a tenant beside others gets one of eight slots', async () => {
  let now = 0;
  let isPressed = true;
  const crowd = new Crowd(
    () => isPressed,
    () => now,
  );
  await reportWorker(side.db, randomUUID(), 8);
  await addExports(20);
  await addExports(1, other.projectIds[0]);
  const first = await dispatch(crowd);
  expect(new Set(await teamsOf(first))).toEqual(new Set([side.teamId, other.projectIds[0]]));
  expect(first).toHaveLength(2);
  for (const runId of first) await claim(side, runId);
  expect(await dispatch(crowd)).toEqual([]);
  // The other's runs have ended, and none came for a while.
  await side.db.query(`delete from runs where team_id = $1`, [other.projectIds[0]]);
  now += 5_000;
  expect(await dispatch(crowd)).toEqual([]);
  now += 6_000;
  const alone = await dispatch(crowd);
  expect(alone).toHaveLength(6);
  // The other is back, but no task waits for a processor.
  for (const runId of alone) await claim(side, runId);
  await side.db.query(`delete from runs where id = $1`, [alone[0]]);
  await addExports(1, other.projectIds[0]);
  isPressed = false;
  expect(await dispatch(crowd)).toHaveLength(2);
});

it('every run asks to be admitted, and counts as its use of the worker', async () => {
  await addExports(2);
  const waiting = await side.db.query<{ id: string }>('select run_id as id from outbox');
  const [first = '', second = ''] = waiting.map(({ id }) => id);
  await side.db.query('update outbox set small = true where run_id = $1', [first]);
  const left: string[] = [];
  const admission = new Admission({
    memoryBytes: 2 ** 30,
    slots: 4,
    smallRuns: 2,
    memoryOf: () => 2 ** 20,
    comparesKeys: () => false,
    stopping: new AbortController().signal,
  });
  const entered: ComingRun[] = [];
  const enter = admission.enter.bind(admission);
  admission.enter = (run) => {
    entered.push(run);
    return enter(run);
  };
  const handlers = createHandlers({
    admission,
    reports: {
      runFailed(error: unknown) {
        throw error;
      },
      attemptEnded: ({ end }: AttemptReport) => left.push(end),
    },
    waits: {
      async settle(runId: string) {
        // Another worker is faster, so the run is not executed here.
        await claim(side, runId);
        return { settlement: null };
      },
    },
    executor: {
      context: side.context,
      statements: new RunStatements(side.db, 60_000),
      workerId: 'one',
      stopping: new AbortController().signal,
      connectors: {},
    },
  } as unknown as HandlerOptions);
  await handlers['execute-small-run']({ runId: first });
  await admission.smallSlots.ended();
  await handlers['execute-run']({ runId: second });
  const organizationId = side.tenant.organizationId;
  expect(entered).toMatchObject([
    { organizationId, small: true },
    { organizationId, small: false },
  ]);
  expect(left).toEqual(['skipped', 'skipped']);
  expect(admission.room().usedBytes).toBe(0);
  admission.close();
});
