import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { reportWorker } from '../../src/store/workers.ts';
import { dispatchRuns } from '../../src/use-cases/runs/dispatch-runs.ts';
import { claim, createExportOfThePast, openRunSide, type RunSide } from '../support/run-side.ts';

/** Slots that one tenant cannot take, whatever its store does to its runs. */

let side: RunSide;
beforeEach(async () => {
  side = await openRunSide();
});
afterEach(() => side.stop());

/** Each export has one run that waits. */
async function addExports(count: number, project = 0): Promise<void> {
  const teamId = side.tenant.projectIds[project];
  if (teamId === undefined) throw new Error(`no project ${project}`);
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

async function dispatch(): Promise<string[]> {
  const enqueued: string[] = [];
  await dispatchRuns(side.context, async (entries) => {
    enqueued.push(...entries.map(({ runId }) => runId));
  });
  return enqueued;
}

async function teamsOf(runIds: readonly string[]): Promise<number[]> {
  const rows = await side.db.query<{ teamId: number }>(
    `select team_id as "teamId" from runs where id = any ($1::uuid[]) order by 1`,
    [runIds],
  );
  return rows.map(({ teamId }) => teamId);
}

it('of four slots one is left to other tenants, whose runs get it at once', async () => {
  await reportWorker(side.db, randomUUID(), 4);
  await addExports(10);
  const first = await dispatch();
  expect(first).toHaveLength(3);
  for (const runId of first) await claim(side, runId);
  expect(await dispatch()).toEqual([]);
  await addExports(1, 1);
  expect(await teamsOf(await dispatch())).toEqual([side.tenant.projectIds[1]]);
});

it('two tenants share all slots of the workers', async () => {
  await reportWorker(side.db, randomUUID(), 2);
  await reportWorker(side.db, randomUUID(), 2);
  await addExports(10);
  await addExports(10, 1);
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
