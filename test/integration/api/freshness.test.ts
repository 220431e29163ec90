import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkFreshness } from '../../../src/state/store/exports/freshness.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';

let api: ApiUnderTest;
let exports: string;

beforeAll(async () => {
  api = await startApiUnderTest();
  exports = `${api.project}/batch_exports`;
});
afterAll(() => api?.stop());

test('an objective is kept, shown, changed and removed', async () => {
  const body = { ...exportBody(), interval: 'hour', freshness_minutes: 90 };
  const made = (await api.client.post(exports, body)).body;
  expect(made).toMatchObject({ freshness_minutes: 90, late_since: null });
  const path = `${exports}/${made.id}`;
  expect((await api.client.patch(path, { name: 'Other' })).body.freshness_minutes).toBe(90);
  expect((await api.client.patch(path, { freshness_minutes: 61 })).body.freshness_minutes).toBe(61);
  await api.db.query(
    `update batch_exports set created_at = now() - interval '3 hours' where id = $1`,
    [made.id],
  );
  await checkFreshness(api.db);
  const late = (await api.client.get(path)).body.late_since;
  expect(late).toMatch(/^\d{4}-.*Z$/);
  const listed = (await api.client.get(exports)).body.results;
  expect(listed.find(({ id }) => id === made.id)?.late_since).toBe(late);
  const freed = (await api.client.patch(path, { freshness_minutes: null })).body;
  expect(freed.freshness_minutes).toBeNull();
  await checkFreshness(api.db, { minutes: 9_000 });
  expect((await api.client.get(path)).body.late_since).toBeNull();
  const activity = (await api.client.get(`${path}/activity`)).body.results;
  expect(JSON.stringify(activity)).toContain('"field":"freshness_minutes"');
});

test.each([
  ['hour', 60, 61],
  ['every 5 minutes', 5, 6],
  ['day', 1_500, 1_501],
  ['week', 10_140, 10_141],
])('with the interval %s, %i minutes are refused and %i are not', async (interval, few, enough) => {
  const post = (minutes: number) =>
    api.client.post(exports, { ...exportBody(), interval, freshness_minutes: minutes });
  const refused = await post(few);
  expect([refused.status, refused.body.attr]).toEqual([400, 'freshness_minutes']);
  expect(refused.body.detail).toContain(`more than ${few}`);
  expect((await post(enough)).status).toBe(201);
});

test('an interval that the objective does not allow is refused', async () => {
  const body = { ...exportBody(), interval: 'hour', freshness_minutes: 90 };
  const { id } = (await api.client.post(exports, body)).body;
  const { status, body: answer } = await api.client.patch(`${exports}/${id}`, { interval: 'day' });
  expect([status, answer.attr]).toEqual([400, 'freshness_minutes']);
});

test.each([0, -1, 1.5, '90', 600_000])('%s is no objective', async (freshness_minutes) => {
  const { status, body } = await api.client.post(exports, { ...exportBody(), freshness_minutes });
  expect([status, body.attr]).toEqual([400, 'freshness_minutes']);
});
