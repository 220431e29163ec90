import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { toTimestamp } from '../../../src/foundation/domain/time.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { allowBriefReceipts } from '../../support/brief-receipts.ts';
import { isNightly } from '../../support/nightly.ts';
import type { ApiClient } from '../../support/api-client.ts';
import type { ExportMode } from '../../../src/foundation/domain/export-settings.ts';
import { runCli } from '../../support/cli.ts';
import { exportOfThePast } from '../../support/run-side.ts';
import { storeExport } from '../../support/store-export.ts';
import { createKey } from '../../support/tenants.ts';
import { useStage } from '../../support/use-stage.ts';

const hourMs = 3_600_000;
/** The last complete hour ends here. */
let now: number;
let id: string;

const api = useStage(startApiUnderTest);
beforeAll(async () => {
  await allowBriefReceipts(api.db);
  now = Math.floor((await readNow(api.db)) / hourMs) * hourMs;
});
beforeEach(async () => {
  id = (await api.client.post(`${api.project}/batch_exports`, exportBody())).body.id;
  await createdAgo(40);
});

const ago = (hours: number) => toTimestamp(now - hours * hourMs);

const createdAgo = (hours: number) =>
  api.db.query('update batch_exports set created_at = $2 where id = $1', [id, ago(hours)]);

const hoursOf = `select $2::timestamptz + n * interval '1 h' as data_interval_start, $2::timestamptz + (n + 1) * interval '1 h' as data_interval_end
  from generate_series(0, $3::int - 1) n`;

/** Receipts of all hours between the two. */
const deliverPortion = (from: number, to: number) =>
  api.db.query(
    `with hours as (${hoursOf}), made as (
       insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at)
       select $1, $4, 'Completed', data_interval_start, data_interval_end, now() from hours
       returning id, data_interval_start, data_interval_end)
     insert into receipts (export_id, data_interval_start, data_interval_end, run_id, files, rows, bytes, settled)
     select $1, data_interval_start, data_interval_end, id, '[]', 1, 1, true from made`,
    [id, ago(from), from - to, api.tenant.projectIds[0]],
  );

/** The triggers of a table without statistics read all of it for each row, so it has some after the first portion. */
async function deliver(from: number, to: number): Promise<void> {
  const portion = 1_000;
  for (let at = from; at > to; at -= portion) {
    await deliverPortion(at, Math.max(to, at - portion));
    if (at === from) await api.db.query('analyze receipts, runs');
  }
}

const tick = (from: number, to: number, fate: string) =>
  api.db.query(
    `insert into ticks (export_id, tick_at, data_interval_start, data_interval_end, fate)
     select $1, data_interval_end, data_interval_start, data_interval_end, $4 from (${hoursOf}) as h`,
    [id, ago(from), from - to, fate],
  );

const backfill = (from: number, to: number, more: Readonly<Record<string, unknown>> = {}) => {
  const { status = 'Completed', order = 'oldest_first', reprocess = 'all', plannedTo } = more;
  return api.db.query(
    `insert into backfills (export_id, team_id, start_at, end_at, status, "order", reprocess, planned_to, concurrency, total_runs)
     values ($1, $2, $3, $4, $5, $6, $7, $8, 1, 1)`,
    [
      ...[id, api.tenant.projectIds[0], ago(from), ago(to), status, order, reprocess],
      plannedTo === undefined ? null : ago(Number(plannedTo)),
    ],
  );
};

const gaps = async () => {
  const { status, body } = await api.client.get(`${api.project}/batch_exports/${id}/coverage/gaps`);
  expect(status).toBe(200);
  return body;
};
const gap = (from: number, to: number) => ({
  start: ago(from),
  end: ago(to),
  intervals: from - to,
});

test('a gap between a backfill and the first tick is found, however many intervals came after it', async () => {
  const many = isNightly ? 25_000 : 5_000;
  await createdAgo(many);
  await backfill(many + 30, many + 3);
  await deliver(many + 30, many + 3);
  await tick(many, many - 5, 'ran');
  await deliver(many, 0);
  expect(await gaps()).toEqual({ count: 1, results: [gap(many + 3, many)] });
  // As retention leaves it.
  await api.db.query('delete from ticks where export_id = $1', [id]);
  expect(await gaps()).toEqual({ count: 1, results: [gap(many + 3, many)] });
});

test('each gap is named, newest first: between backfills, before the part that one has made, after a window', async () => {
  await backfill(100, 90);
  await deliver(100, 90);
  await backfill(85, 60, { status: 'Cancelled', order: 'newest_first', plannedTo: 70 });
  await deliver(70, 60);
  await backfill(60, 40);
  await deliver(60, 40);
  await tick(40, 30, 'ran');
  await deliver(40, 30);
  await tick(30, 20, 'outside_window');
  await tick(20, 10, 'paused');
  await tick(10, 0, 'ran');
  await deliver(10, 0);
  expect(await gaps()).toEqual({ count: 2, results: [gap(30, 20), gap(90, 70)] });
});

test('before the first and after the last requested interval there is no gap', async () => {
  expect(await gaps()).toEqual({ count: 0, results: [] });
  await tick(40, 35, 'outside_window');
  await tick(35, 30, 'ran');
  await deliver(35, 30);
  expect(await gaps()).toEqual({ count: 0, results: [] });
});

test('a gap goes if a backfill is asked for it, or if a person accepts it, not with one for what is missing', async () => {
  await backfill(60, 50);
  await deliver(60, 50);
  await tick(40, 0, 'ran');
  await deliver(40, 0);
  await backfill(60, 0, { status: 'Running', reprocess: 'missing' });
  expect(await gaps()).toEqual({ count: 1, results: [gap(50, 40)] });
  await backfill(50, 45, { status: 'Running' });
  expect(await gaps()).toEqual({ count: 1, results: [gap(45, 40)] });
  await api.db.query(
    `insert into accepted_intervals (export_id, data_interval_start, data_interval_end)
     select $1, data_interval_start, data_interval_end from (${hoursOf}) as h`,
    [id, ago(45), 5],
  );
  expect(await gaps()).toEqual({ count: 0, results: [] });
});

/** What an operator does to the exports of a cause, one by one. */
describe('an operator who acts on an export', () => {
  let operator: ApiClient;
  let operatorKey: string;

  beforeAll(async () => {
    operatorKey = (await createKey(api.db, { organizationId: null })).key;
    operator = api.client.withKey(operatorKey);
  });

  /** Exports of a dead bucket, each with one lost interval, and the cause that holds them up. */
  async function loseIntervals(bucket: string, count: number, mode: ExportMode = 'append') {
    const [teamId] = api.tenant.projectIds;
    const ids: string[] = [];
    for (let n = 0; n < count; n += 1) {
      const destination = { type: 'S3', config: { bucket_name: bucket }, secrets: null };
      const created = await exportOfThePast({ db: api.db, teamId }, { destination, mode });
      await storeExport(api.db, created);
      ids.push(created.id);
      await api.db.query(
        `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at, error_code)
       values ($1, $2, 'Failed', '2024-03-01', '2024-03-01 01:00', now(), 'destination.bucket_not_found')`,
        [created.id, teamId],
      );
    }
    await api.db.query(
      `update batch_exports set failing_since = now(), failing_code = 'destination.bucket_not_found', failing_error = 'gone' where id = any ($1::uuid[])`,
      [ids],
    );
    const { body } = await operator.get('/api/admin/causes');
    const cause = body.results.find((one) => String(one.place).includes(bucket));
    return { ids, cause: String(cause?.id) };
  }

  const act = (id: string, action: string) =>
    operator.post(`/api/admin/exports/${id}/act`, { action });
  const sluice = (...words: string[]) =>
    runCli(words, { env: { SLUICE_URL: api.baseUrl, SLUICE_KEY: operatorKey } });
  const backfillsOf = (ids: readonly string[]) =>
    api.db.query<{ runs: number }>(
      `select total_runs as runs from backfills where export_id = any ($1::uuid[]) and status = 'Running'`,
      [ids],
    );

  test.each(['probe', 'retry'])(
    'a %s that meets a pause made by a person says so, and tries nothing',
    async (action) => {
      const { ids } = await loseIntervals(`bucket-of-${action}`, 1);
      const [id = ''] = ids;
      await api.client.post(`${api.project}/batch_exports/${id}/pause`, {});
      const { status, body } = await act(id, action);
      const reason = 'A person has paused the export: nothing was tried.';
      expect([status, body]).toEqual([200, { backfill_ids: [], passed_over: reason }]);
      expect(await backfillsOf(ids)).toEqual([]);
      // A person's pause stays.
      const shown = await api.client.get(`${api.project}/batch_exports/${id}`);
      expect(shown.body).toMatchObject({ paused: true, paused_reason: null });
    },
  );

  test.each([false, true])(
    'a retry of an export without a past makes its newest interval; paused: %s',
    async (paused) => {
      const { ids } = await loseIntervals(`snapshots-${paused}`, 1, 'snapshot');
      const [id = ''] = ids;
      await api.db.query(
        `update batch_exports set paused = $2, paused_reason = case when $2 then '10 failures' end where id = $1`,
        [id, paused],
      );
      expect((await act(id, 'retry')).body.passed_over).toBeNull();
      // Its next tick comes after a pause.
      expect(await backfillsOf(ids)).toEqual(paused ? [] : [{ runs: 1 }]);
      const { body } = await api.client.get(`${api.project}/batch_exports/${id}`);
      expect(body.paused).toBe(false);
    },
  );

  test('a pause of Sluice is no reason to pass over an export, and a second call does nothing twice', async () => {
    const { ids } = await loseIntervals('bucket-of-sluice', 1);
    const [id = ''] = ids;
    await api.db.query(
      `update batch_exports set paused = true, paused_reason = '10 failures' where id = $1`,
      [id],
    );
    const first = await act(id, 'probe');
    expect([first.status, first.body.passed_over]).toEqual([200, null]);
    const again = await act(id, 'probe');
    const reason = 'A backfill of intervals without data is in progress.';
    expect([again.status, again.body]).toEqual([200, { backfill_ids: [], passed_over: reason }]);
    expect(await backfillsOf(ids)).toEqual([{ runs: 1 }]);
  });

  test('a retry ends a pause of Sluice, also if no interval lacks data', async () => {
    const { ids } = await loseIntervals('bucket-of-a-pause', 1);
    const [id = ''] = ids;
    await api.db.query('delete from holes where export_id = $1', [id]);
    await api.db.query(
      `update batch_exports set paused = true, paused_reason = '10 failures' where id = $1`,
      [id],
    );
    expect((await act(id, 'retry')).body.passed_over).toBeNull();
    const shown = await api.client.get(`${api.project}/batch_exports/${id}`);
    expect(shown.body).toMatchObject({ paused: false });
  });

  test('a retry of more exports of a project than it may have backfills does them all, and none twice', async () => {
    const { ids, cause } = await loseIntervals('bucket-of-many', 23);
    const done = await sluice('causes', 'retry', cause, '--yes');
    expect([done.code, done.out]).toEqual([0, 'retry: 23 of 23 exports\n']);
    expect(await backfillsOf(ids)).toEqual(ids.map(() => ({ runs: 1 })));
    const again = await sluice('causes', 'retry', cause, '--yes');
    expect([again.code, again.out]).toEqual([
      0,
      'retry: 0 of 23 exports\npassed over 23 exports: A backfill of intervals without data is in progress.\n',
    ]);
  });

  test('a loop on the command line does all of a cause, passes over what is done, and only with the scope', async () => {
    const { ids, cause } = await loseIntervals('bucket-of-three', 3);
    const { key } = await createKey(api.db, { organizationId: null, scopes: ['operator:read'] });
    const refused = await api.client.withKey(key).post(`/api/admin/exports/${ids[0]}/act`, {
      action: 'pause',
    });
    expect(refused.status).toBe(403);
    expect((await act('3f0cf0b7-5a2c-4e0e-9d0e-7d3b1c9f2a11', 'pause')).status).toBe(404);
    const dry = await sluice('causes', 'retry', cause, '--dry-run');
    expect(dry.out).toBe('retry: 3 exports of 1 customer, 3 intervals without data\n');
    expect(await backfillsOf(ids)).toEqual([]);
    const done = await sluice('causes', 'pause', cause, '--yes');
    expect([done.code, done.out]).toEqual([0, 'pause: 3 of 3 exports\n']);
    expect(done.err).toContain('100%');
    const paused = await api.db.query<{ paused: boolean }>(
      'select paused from batch_exports where id = any ($1::uuid[])',
      [ids],
    );
    expect(paused.map((one) => one.paused)).toEqual([true, true, true]);
  });
});
