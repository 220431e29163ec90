import { afterAll, beforeAll, expect, test } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import type { Context } from '../../../src/service/use-cases/context.ts';
import { recordFault, releaseRun } from '../../../src/service/use-cases/runs/finish-run.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import {
  claim,
  complete,
  createExportOfThePast,
  decide,
  firstRun,
} from '../../support/run-side.ts';
import { testApiOptions } from '../../support/test-api-options.ts';

let api: ApiUnderTest;
let context: Context;

beforeAll(async () => {
  api = await startApiUnderTest();
  ({ context } = testApiOptions(api.db, api.databaseUrl));
});
afterAll(() => api.stop());

/** An export with one run that is due, and how the API shows that run. */
async function createDueRun() {
  const [teamId] = api.tenant.projectIds;
  const { id } = await createExportOfThePast({ db: api.db, teamId });
  await decide(context);
  const run = await firstRun(api.db, id);
  await makeDue(run.id);
  const exports = `${api.project}/batch_exports`;
  const read = async () => {
    const { body } = await api.client.get(`${exports}/${id}/runs/${run.id}`);
    const { status, attempt, max_attempts, next_attempt_at } = body;
    return { status, attempt, max_attempts, next_attempt_at };
  };
  return { runId: run.id, path: `${exports}/${id}`, read };
}

/** Lets a run that waits be due now. */
const makeDue = (runId: string) =>
  api.db.query('update outbox set available_at = now() where run_id = $1', [runId]);

test('a run says which attempt comes next, when, and how many there can be', async () => {
  const { runId, path, read } = await createDueRun();
  const due = await read();
  expect(due).toMatchObject({ status: 'Starting', attempt: 0, max_attempts: 10 });
  expect(Date.parse(String(due.next_attempt_at))).toBeLessThanOrEqual(Date.now());

  const first = await claim(api, runId);
  const underWay = { status: 'Running', attempt: 1, max_attempts: 10, next_attempt_at: null };
  expect(await read()).toEqual(underWay);

  await recordFault(context, first, new SluiceError('destination.unavailable'), 0.9);
  const waits = await read();
  expect(waits).toMatchObject({ status: 'Running', attempt: 1, max_attempts: 10 });
  const [row] = await api.db.query<{ at: string }>(
    'select available_at as at from outbox where run_id = $1',
    [runId],
  );
  expect(waits.next_attempt_at).toBe(row?.at);
  const { results } = (await api.client.get(`${path}/runs`)).body;
  expect(results[0]?.next_attempt_at).toBe(row?.at);
  const shown = (await api.client.get(path)).body.latest_runs[0];
  expect(shown).toMatchObject({ max_attempts: 10, next_attempt_at: row?.at });

  await makeDue(runId);
  await complete(context, await claim(api, runId));
  const done = { status: 'Completed', attempt: 2, max_attempts: null, next_attempt_at: null };
  expect(await read()).toEqual(done);
});

test('an attempt that a shutdown ended does not count', async () => {
  const { runId, read } = await createDueRun();
  await releaseRun(context, await claim(api, runId));
  expect(await read()).toMatchObject({ attempt: 1, max_attempts: 11 });
  const second = await claim(api, runId);
  expect(await read()).toMatchObject({ attempt: 2, max_attempts: 11, next_attempt_at: null });
  await recordFault(context, second, new SluiceError('destination.unavailable'), 0);
  expect(await read()).toMatchObject({ attempt: 2, max_attempts: 11 });
  for (let attempt = 3; attempt <= 11; attempt++) {
    await makeDue(runId);
    const run = await claim(api, runId);
    expect(await read()).toMatchObject({ attempt, max_attempts: 11, status: 'Running' });
    await recordFault(context, run, new SluiceError('destination.unavailable'), 0);
  }
  expect(await read()).toMatchObject({ status: 'FailedRetryable', attempt: 11 });
});
