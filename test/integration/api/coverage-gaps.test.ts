import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { toTimestamp } from '../../../src/foundation/domain/time.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { allowBriefReceipts } from '../../support/brief-receipts.ts';
import { isNightly } from '../../support/nightly.ts';

const hourMs = 3_600_000;

let api: ApiUnderTest;
/** The last complete hour ends here. */
let now: number;
let id: string;

beforeAll(async () => {
  api = await startApiUnderTest();
  await allowBriefReceipts(api.db);
  now = Math.floor((await readNow(api.db)) / hourMs) * hourMs;
});
afterAll(() => api.stop());
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
