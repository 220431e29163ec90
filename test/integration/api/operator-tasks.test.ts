/** What an operator's task says of exports to which it did nothing. */

import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Context } from '../../../src/service/use-cases/context.ts';
import { advanceTasks } from '../../../src/service/use-cases/operators/tasks.ts';
import { nextOfTasks } from '../../../src/state/store/healing/operator-tasks.ts';
import type { ApiClient } from '../../support/api-client.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { runCli } from '../../support/cli.ts';
import { exportOfThePast } from '../../support/run-side.ts';
import { storeExport } from '../../support/store-export.ts';
import { createKey } from '../../support/tenants.ts';

let api: ApiUnderTest;
let operator: ApiClient;
let operatorKey: string;
let context: Context;

beforeAll(async () => {
  api = await startApiUnderTest({}, (options) => {
    context = options.context;
  });
  operatorKey = (await createKey(api.db, { organizationId: null })).key;
  operator = api.client.withKey(operatorKey);
});
afterAll(() => api?.stop());

/** An export of a dead bucket with one lost interval, and the cause that holds it up. */
async function loseAnInterval(bucket: string) {
  const [teamId] = api.tenant.projectIds;
  const destination = { type: 'S3', config: { bucket_name: bucket }, secrets: null };
  const created = await exportOfThePast({ db: api.db, teamId }, { destination });
  await storeExport(api.db, created);
  await api.db.query(
    `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at, error_code)
     values ($1, $2, 'Failed', '2024-03-01', '2024-03-01 01:00', now(), 'destination.bucket_not_found')`,
    [created.id, teamId],
  );
  await api.db.query(
    `update batch_exports set failing_since = now(), failing_code = 'destination.bucket_not_found', failing_error = 'gone' where id = $1`,
    [created.id],
  );
  const { body } = await operator.get('/api/admin/causes');
  const cause = body.results.find((one) => String(one.place).includes(bucket));
  return { id: created.id, tasks: `/api/admin/causes/${cause?.id}/tasks` };
}

test.each(['probe', 'retry'])(
  'a %s that meets a pause made by a person says so, and tries nothing',
  async (action) => {
    const { id, tasks } = await loseAnInterval(`bucket-of-${action}`);
    const started = await operator.post(tasks, { action });
    expect(started.status, started.text).toBe(201);
    await api.client.post(`${api.project}/batch_exports/${id}/pause`, {});
    await advanceTasks(context);
    const reason = 'A person has paused the export: nothing was tried.';
    expect((await operator.get(`/api/admin/tasks/${started.body.id}`)).body).toMatchObject({
      ...{ status: 'Completed', runs: 0, done_exports: 0, skipped_exports: 1 },
      skipped_because: [{ reason, exports: 1 }],
    });
    const backfills = await api.db.query('select from backfills where export_id = $1', [id]);
    expect(backfills).toEqual([]);
    const listed = await runCli(['causes', 'tasks'], {
      env: { SLUICE_URL: api.baseUrl, SLUICE_KEY: operatorKey },
    });
    expect(listed.out).toContain(`${started.body.id}: passed over 1 export: ${reason}\n`);
    // A person's pause stays.
    const shown = await api.client.get(`${api.project}/batch_exports/${id}`);
    expect(shown.body).toMatchObject({ paused: true, paused_reason: null });
  },
);

test('a pause of Sluice is no reason to pass over an export', async () => {
  const { id, tasks } = await loseAnInterval('bucket-of-sluice');
  await api.db.query(
    `update batch_exports set paused = true, paused_reason = '10 failures' where id = $1`,
    [id],
  );
  const started = await operator.post(tasks, { action: 'probe' });
  await advanceTasks(context);
  expect((await operator.get(`/api/admin/tasks/${started.body.id}`)).body).toMatchObject({
    ...{ status: 'Running', done_exports: 1, skipped_because: [] },
  });
  const backfills = await api.db.query(
    `select total_runs as runs from backfills where export_id = $1 and status = 'Running'`,
    [id],
  );
  expect(backfills).toEqual([{ runs: 1 }]);
});

test('exports whose turn comes again do not keep the others from theirs', async () => {
  const [teamId] = api.tenant.projectIds;
  const ids: string[] = [];
  for (let n = 0; n < 12; n += 1) {
    const made = await exportOfThePast({ db: api.db, teamId });
    await storeExport(api.db, made);
    ids.push(made.id);
  }
  await api.db.query(
    `with task as (insert into operator_tasks (action, cause, code) values ('retry', '', 'export.late') returning id)
     insert into operator_task_exports (task_id, export_id, team_id) select task.id, x, $2 from task, unnest($1::uuid[]) x`,
    [ids, teamId],
  );
  // None of the ten ends: a backfill of each still runs, for example.
  const had = new Set<string>();
  for (let sweep = 0; sweep < 200 && had.size < ids.length; sweep += 1) {
    const turns = await nextOfTasks(api.db, 10);
    expect(turns).toHaveLength(10);
    for (const { exportId } of turns) had.add(exportId);
  }
  expect(had.size).toBe(ids.length);
});
