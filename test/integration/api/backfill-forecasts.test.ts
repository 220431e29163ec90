import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';

let api: ApiUnderTest;
let exports: string;

beforeAll(async () => {
  api = await startApiUnderTest();
  exports = `${api.project}/batch_exports`;
});
afterAll(() => api?.stop());

const march = { start_at: '2024-03-01T00:00:00Z', end_at: '2024-03-02T00:00:00Z' };

const create = async () => `${exports}/${(await api.client.post(exports, exportBody())).body.id}`;

test('dry_run estimates rows and bytes from the runs before', async () => {
  const { client } = api;
  const path = await create();
  await api.db.query(
    `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at, records_total_count, bytes_exported)
     select id, team_id, 'Completed', at, at + interval '1 hour', at, 5, 700
       from batch_exports, lateral (select timestamptz '2024-02-01Z' as at) t where id = $1`,
    [path.split('/').at(-1)],
  );
  const known = await client.post(`${path}/backfill`, { ...march, dry_run: true });
  expect(known.body).toMatchObject({ estimated_rows: 120, estimated_bytes: 16_800 });
});

test('progress counts the runs that ended, and those that failed', async () => {
  const { client } = api;
  const path = await create();
  const { body } = await client.post(`${path}/backfill`, march);
  const ended = (from: number, to: number) =>
    api.db.query(
      `insert into runs (export_id, team_id, backfill_id, status, data_interval_start, data_interval_end, finished_at)
       select export_id, team_id, id, case n when 18 then 'Failed' else 'Completed' end,
              start_at + n * interval '1 hour', start_at + (n + 1) * interval '1 hour', now()
         from backfills, generate_series($2::int, $3::int) n where id = $1`,
      [body.backfill_id, from, to],
    );
  await ended(23, 23);
  // Of 24 runs, one is too few for a forecast.
  const early = await client.get(`${path}/backfills/${body.backfill_id}`);
  expect(early.body).toMatchObject({ finished_runs: 1, eta: null });
  await ended(18, 22);
  const found = await client.get(`${path}/backfills/${body.backfill_id}`);
  expect(found.body).toMatchObject({ finished_runs: 6, failed_runs: 1, progress: 0.25 });
  expect(found.body.eta).toMatch(/Z$/);
});
