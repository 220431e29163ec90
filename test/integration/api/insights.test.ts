import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody, s3 } from '../../support/batch-export-bodies.ts';

let api: ApiUnderTest;
let exports: string;

beforeAll(async () => {
  api = await startApiUnderTest();
  exports = `${api.project}/batch_exports`;
});
afterAll(() => api.stop());

async function create(changes: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const { body } = await api.client.post(exports, exportBody(changes));
  return `${exports}/${body.id}`;
}

test('the schedule previews the next 10 intervals, each beginning where the last one ends', async () => {
  const path = await create({ interval: 'day', timezone: 'America/New_York', offset_hour: 3 });
  const { status, body } = await api.client.get(`${path}/schedule`);
  expect(status).toBe(200);
  expect(body.results).toHaveLength(10);
  for (const [index, interval] of body.results.entries()) {
    expect(interval).toMatchObject({ timezone: 'America/New_York', fate: 'ran' });
    expect(interval.local_start).toMatch(/T03:00:00-0[45]:00$/);
    expect([23, 24, 25]).toContain(interval.hours);
    const next = body.results[index + 1];
    if (next) expect(interval.data_interval_end).toBe(next.data_interval_start);
  }
});

test('the schedule shows the effect of a pause and of an end', async () => {
  const path = await create({ paused: true });
  const { body } = await api.client.get(`${path}/schedule`);
  expect(new Set(body.results.map(({ fate }) => fate))).toEqual(new Set(['paused']));
});

test('the destination test names the step that fails', async () => {
  const path = await create({ destination: s3({ endpoint_url: 'http://127.0.0.1:1/' }) });
  const { status, body } = await api.client.post(`${path}/test`);
  expect(status).toBe(200);
  expect(body).toMatchObject({ passed: false });
  const steps = body.steps as { passed: boolean; error: string | null }[];
  expect(steps.at(-1)).toMatchObject({
    passed: false,
    error: expect.stringContaining('The endpoint cannot be reached'),
  });
});

test('activity says which key changed what, with before and after, and no secret', async () => {
  const path = await create();
  await api.client.patch(path, { name: 'renamed' });
  await api.client.patch(path, {
    destination: { config: { aws_secret_access_key: 'canary-second' } },
  });
  await api.client.post(`${path}/pause`);
  const { status, body, text } = await api.client.get(`${path}/activity?limit=10`);
  expect(status).toBe(200);
  expect(body.count).toBe(4);
  expect(body.results.map(({ action }) => action)).toEqual([
    'paused',
    'updated',
    'updated',
    'created',
  ]);
  expect(body.results[2]).toMatchObject({
    key_id: api.tenant.keyId,
    key_name: 'test',
    changes: [{ field: 'name', before: 'Events to S3', after: 'renamed' }],
  });
  expect(body.results[1]?.changes).toEqual([
    { field: 'destination secrets', before: '********', after: '********' },
  ]);
  expect(text).not.toContain('canary');
  // A new export has what was given, and none of the defaults.
  const created = (body.results[3]?.changes ?? []) as { field: string; after: unknown }[];
  expect(created.map(({ field }) => field)).toEqual([
    ...['name', 'destination', 'interval', 'model', 'destination secrets'],
  ]);
  const destination = (created[1]?.after ?? {}) as { config?: object };
  expect(Object.keys(destination.config ?? {}).toSorted()).toEqual(['bucket_name', 'region']);
});
