import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { toTimestamp } from '../../../src/foundation/domain/time.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { createKey } from '../../support/tenants.ts';

const hourMs = 3_600_000;

let api: ApiUnderTest;
let now: number;
let path: string;

const ago = (hours: number) => toTimestamp(now - hours * hourMs);
const runNow = async () => (await api.client.post(`${path}/run_now`)).body;
const create = async (changes: Readonly<Record<string, unknown>>) => {
  const { body } = await api.client.post(`${api.project}/batch_exports`, exportBody(changes));
  path = `${api.project}/batch_exports/${body.id}`;
};

beforeAll(async () => {
  api = await startApiUnderTest();
});
afterAll(() => api.stop());
beforeEach(async () => {
  // The last complete hour ends here.
  now = Math.floor((await readNow(api.db)) / hourMs) * hourMs;
});

test('exports the whole intervals from start_at on, and says the second time that a backfill runs', async () => {
  await create({ start_at: ago(3) });
  const started = await runNow();
  expect(started).toMatchObject({ total_runs: 3, start_at: ago(3), end_at: ago(0), reason: null });
  const { body } = await api.client.get(`${path}/backfills/${started.backfill_id}`);
  expect(body).toMatchObject({ reprocess: 'failed', status: 'Running', total_runs: 3 });
  const again = await runNow();
  expect(again).toMatchObject({ backfill_id: null, total_runs: 0 });
  expect(again.reason).toContain(`Backfill ${started.backfill_id} of an overlapping range`);
});

test('says of a new export when its present interval ends, and stores no backfill', async () => {
  await create({});
  const next = ago(-1).replace('.000000', '');
  expect((await runNow()).reason).toBe(
    `No interval has ended yet. The present interval ends at ${next}, and is exported then.`,
  );
  expect((await api.client.get(`${path}/backfills`)).body.results).toEqual([]);
});

test('says that all is exported or has a run', async () => {
  await create({ start_at: ago(2) });
  await api.db.query(
    `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end)
     select id, team_id, 'Starting', $2::timestamptz + n * interval '1 hour', $2::timestamptz + (n + 1) * interval '1 hour'
       from batch_exports, generate_series(0, 1) n where id = $1`,
    [path.split('/').at(-1), ago(2)],
  );
  const { reason, backfill_id: id } = await runNow();
  expect(id).toBeNull();
  expect(reason).toContain(
    `Every interval up to ${ago(0).replace('.000000', '')} is exported or has a run.`,
  );
});

test('says that it is paused, that it has not begun, and that it has ended', async () => {
  await create({ start_at: ago(3), paused: true });
  expect((await runNow()).reason).toContain('The export is paused.');
  await create({ start_at: ago(-5) });
  expect((await runNow()).reason).toContain('its start_at. Nothing is due before.');
  await create({ start_at: ago(3), end_at: ago(1) });
  expect(await runNow()).toMatchObject({ total_runs: 2, end_at: ago(1) });
});

test('a snapshot has only its newest interval, once, and it supersedes those before', async () => {
  await create({ mode: 'snapshot' });
  const addRun = (status: string, from: number) =>
    api.db.query(
      `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at)
       select id, team_id, $2, $3::timestamptz, $3::timestamptz + interval '1 hour', case when $2 = 'Failed' then now() end
         from batch_exports where id = $1`,
      [path.split('/').at(-1), status, ago(from)],
    );
  await addRun('Failed', 4);
  await addRun('Starting', 3);
  expect((await runNow()).reason).toContain('A run is in progress.');
  await api.db.query(
    `update runs set status = 'Cancelled', finished_at = now() where status = 'Starting'`,
  );
  expect(await runNow()).toMatchObject({ total_runs: 1, start_at: ago(1), end_at: ago(0) });
  expect((await runNow()).reason).toContain('of an overlapping range is running');
  const { body } = await api.client.get(`${path}/coverage`);
  expect(JSON.stringify(body.ranges)).toContain('superseded');
});

test('needs batch_export:write, and an operator is refused', async () => {
  await create({ start_at: ago(3) });
  const { organizationId } = api.tenant;
  for (const wanted of [
    { organizationId, scopes: ['batch_export:read'] },
    { organizationId: null },
  ]) {
    const { key } = await createKey(api.db, wanted);
    expect((await api.client.withKey(key).post(`${path}/run_now`)).status).toBe(403);
  }
});
