import { beforeAll, describe, expect, test } from 'vitest';
import { settingList } from '../../../src/foundation/domain/export-settings.ts';
import type { ApiClient } from '../../support/api-client.ts';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { cliEnv, runCli } from '../../support/cli.ts';
import { exportBody, s3, s3Defaults } from '../../support/batch-export-bodies.ts';
import { useStage } from '../../support/use-stage.ts';

let client: ApiClient;
let exports: string;

const api = useStage(startApiUnderTest);
beforeAll(async () => {
  client = api.client;
  exports = `${api.project}/batch_exports`;
});

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;

async function create(changes: Readonly<Record<string, unknown>> = {}) {
  const { status, body } = await client.post(`${exports}/`, exportBody(changes));
  expect(status).toBe(201);
  return body;
}

describe('update', () => {
  test('PATCH changes what is sent and keeps the rest', async () => {
    const created = await create({ start_at: '2024-03-01T00:00:00Z' });
    const { status, body } = await client.patch(`${exports}/${created.id}`, { name: 'renamed' });
    expect(status).toBe(200);
    expect(body).toEqual({
      ...created,
      name: 'renamed',
      last_updated_at: expect.stringMatching(instant),
    });
    expect(String(body.last_updated_at) > String(created.last_updated_at)).toBe(true);
  });

  // new_base needs a model with a version: test/e2e/changes.test.ts has it.
  const changed = settingList.filter(({ field }) => field !== 'new_base');
  test.each(changed)('$field is taken, shown, changed and recorded', async (setting) => {
    const { field, type, minimum = 0, maximum = 0, choices } = setting;
    const shape = { title: setting.title, description: setting.description };
    const { body: document } = await client.get('/api/openapi.json');
    expect(JSON.stringify(document)).toContain(JSON.stringify(shape).slice(1, -1));
    // Days have every setting, and some need another one.
    const [first, second] =
      type === 'integer'
        ? [Math.min(maximum, 9_000), Math.min(maximum, 8_000) - 1]
        : [choices?.[1] ?? '09:30', choices?.[0] ?? '21:00'];
    const needs: Readonly<Record<string, object>> = {
      warn_minutes: { deadline_minutes: 20_000 },
      keep_snapshots: { mode: 'snapshot' },
    };
    const more = needs[field] ?? {};
    const made = await create({ interval: 'day', ...more, [field]: first });
    expect(made[field]).toBe(first);
    const url = `${exports}/${made.id}`;
    const { body: changed } = await client.patch(url, { [field]: second });
    expect(changed[field]).toBe(second);
    await client.patch(url, { name: 'renamed' });
    expect((await client.get(url)).body).toMatchObject({ ...more, [field]: second });
    const { body: activity } = await client.get(`${url}/activity`);
    expect(activity.results[1]?.changes).toEqual([{ field, before: first, after: second }]);
    const { body: kept } = await client.patch(url, { [field]: setting.default });
    expect(kept[field]).toBe(setting.default);
    for (const wrong of type === 'integer' ? [minimum - 1, maximum + 1, 'x'] : ['24:00', 9]) {
      const refused = await client.patch(url, { [field]: wrong });
      expect(refused.body).toMatchObject({ attr: field });
    }
  });

  test('null clears a nullable time and the query', async () => {
    const { id } = await create({ start_at: '2024-03-01', dsl_query: 'select event from events' });
    const { body } = await client.patch(`${exports}/${id}`, { start_at: null, dsl_query: null });
    expect(body).toMatchObject({ start_at: null, dsl_query: null, schema: null });
  });

  test('transformations need a query that selects columns and paths only', async () => {
    const { id } = await create({ dsl_query: 'select upper(event) as e from events' });
    const refused = await client.patch(`${exports}/${id}`, { transformations: true });
    expect(refused.status).toBe(400);
    expect(refused.body).toMatchObject({ attr: 'dsl_query' });
    const plain = 'select event as e, properties.a.b from events where upper(event) = $$A$$';
    const { body } = await client.patch(`${exports}/${id}`, {
      transformations: true,
      dsl_query: plain,
    });
    expect(body).toMatchObject({ transformations: true, dsl_query: plain });
  });

  test('merges the config, and keeps a secret that is not sent', async () => {
    const { id } = await create({ destination: s3({ prefix: 'a', compression: 'gzip' }) });
    const { body } = await client.patch(`${exports}/${id}`, {
      destination: { type: 'S3', config: { prefix: 'b', compression: null } },
    });
    expect(body.destination.config).toEqual({
      ...s3Defaults,
      bucket_name: 'my-events',
      region: 'us-east-1',
      prefix: 'b',
    });
    // Without the kept pair of keys, one new half would be refused.
    const half = await client.patch(`${exports}/${id}`, {
      destination: { config: { aws_secret_access_key: 'another' } },
    });
    expect(half.status).toBe(200);
  });

  test('null clears a secret, and the rules see the outcome', async () => {
    const { id } = await create();
    const { status, body } = await client.patch(`${exports}/${id}`, {
      destination: { config: { aws_secret_access_key: null } },
    });
    expect(status).toBe(400);
    expect(body.attr).toBe('destination__config__aws_secret_access_key');
  });

  test.each([
    ['another type', { destination: { type: 'NoOp' } }, 'destination__type'],
    [
      'an unknown key of the config',
      { destination: { config: { colour: 1 } } },
      'destination__config__colour',
    ],
    ['an end before the start', { end_at: '2023-01-01' }, 'end_at'],
    ['an offset that the interval does not take', { offset_day: 1 }, 'offset_day'],
    ['a null name', { name: null }, 'name'],
    ['a null destination', { destination: null }, 'destination'],
  ])('refuses %s and changes nothing', async (_what, change, attr) => {
    const created = await create({ start_at: '2024-03-01T00:00:00Z' });
    const { status, body } = await client.patch(`${exports}/${created.id}`, {
      name: 'changed',
      ...change,
    });
    expect(status).toBe(400);
    expect(body.attr).toBe(attr);
    expect((await client.get(`${exports}/${created.id}`)).body).toEqual(created);
  });

  test('a new cadence begins at the boundary that closes the open interval', async () => {
    const created = await create({ interval: 'hour' });
    const { body } = await client.patch(`${exports}/${created.id}`, { interval: 'day' });
    expect(body).toMatchObject({ interval: 'day', offset_hour: 0 });
    expect(body.next_run_at).toBe(created.next_run_at);
  });

  test('PUT requires name, destination and interval, and keeps what is not sent', async () => {
    const created = await create({ start_at: '2024-03-01T00:00:00Z' });
    const path = `${exports}/${created.id}`;
    const refused = await client.put(path, { name: 'x' });
    expect(refused.body.errors.map(({ attr }) => attr)).toEqual(['destination', 'interval']);
    const { status, body } = await client.put(path, {
      name: 'put',
      interval: 'day',
      destination: { type: 'S3', config: { prefix: 'p' } },
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({ name: 'put', interval: 'day', start_at: created.start_at });
    expect(body.destination.config).toMatchObject({ bucket_name: 'my-events', prefix: 'p' });
  });

  test('paused in PATCH pauses and unpauses as the operations do', async () => {
    const { id } = await create();
    const paused = await client.patch(`${exports}/${id}`, { paused: true });
    expect(paused.body).toMatchObject({ paused: true, next_run_at: null });
    const again = await client.patch(`${exports}/${id}`, { paused: true });
    expect(again.body.last_paused_at).toBe(paused.body.last_paused_at);
    const unpaused = await client.patch(`${exports}/${id}`, { paused: false });
    expect(unpaused.body).toMatchObject({
      paused: false,
      last_paused_at: paused.body.last_paused_at,
      next_run_at: expect.stringMatching(instant),
    });
  });

  test('last_paused_at is writable', async () => {
    const { id } = await create();
    const { body } = await client.patch(`${exports}/${id}`, { last_paused_at: '2024-03-01' });
    expect(body.last_paused_at).toBe('2024-03-01T00:00:00.000000Z');
  });
});

describe('pause and unpause', () => {
  test('pause is idempotent and writes the time of the change only', async () => {
    const { id } = await create();
    const first = await client.post(`${exports}/${id}/pause/`);
    expect(first.status).toBe(200);
    expect(first.body).toMatchObject({
      paused: true,
      last_paused_at: expect.stringMatching(instant),
    });
    expect((await client.post(`${exports}/${id}/pause`, {})).body).toEqual(first.body);
  });

  test('unpause is idempotent and backfills nothing by itself', async () => {
    const { id } = await create({ paused: true });
    const first = await client.post(`${exports}/${id}/unpause`);
    expect(first.status).toBe(200);
    expect(first.body.paused).toBe(false);
    expect(first.body).not.toHaveProperty('backfill_id');
    expect((await client.post(`${exports}/${id}/unpause`)).body).toEqual(first.body);
    expect((await client.get(`${exports}/${id}/backfills`)).body.results).toEqual([]);
  });

  test('unpause with backfill exports exactly the intervals missed while paused', async () => {
    const { id } = await create({ paused: true });
    // The pause began long ago, and no tick came under another gate.
    await api.db.query(
      `update batch_exports set schedule = jsonb_set(schedule, '{gates,0,since}', to_jsonb(
         (extract(epoch from date_trunc('hour', now(), 'UTC') - interval '5 hours') * 1000)::bigint)) where id = $1`,
      [id],
    );
    const { status, body } = await client.post(`${exports}/${id}/unpause`, { backfill: true });
    expect(status).toBe(200);
    const backfill = await client.get(`${exports}/${id}/backfills/${body.backfill_id}`);
    expect(backfill.body.total_runs).toBe(5);
  });

  test('an unpause says how many intervals it leaves out, and exports exactly those that are asked for', async () => {
    const { id } = await create({ paused: true });
    await api.db.query(
      `update batch_exports set schedule = jsonb_set(schedule, '{gates,0,since}', to_jsonb(
         (extract(epoch from date_trunc('hour', now(), 'UTC') - interval '3 hours') * 1000)::bigint)) where id = $1`,
      [id],
    );
    // Two requested intervals before the pause have no data; the hour between them was never asked for.
    await api.db.query(
      `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at)
       select e.id, e.team_id, 'Failed', at, at + interval '1 hour', now()
         from batch_exports e, generate_series(5, 7, 2) n,
              lateral (select date_trunc('hour', now(), 'UTC') - n * interval '1 hour' as at) t where e.id = $1`,
      [id],
    );
    const path = `${exports}/${id}`;
    const { body: left } = await client.post(`${path}/unpause`, { dry_run: true });
    expect(left).toMatchObject({ dry_run: true, missed_intervals: 3, missing: { count: 2 } });
    expect(left.missed).toHaveLength(1);
    expect((await client.get(path)).body.paused).toBe(true);

    const env = cliEnv(api);
    const dry = await runCli(['exports', 'unpause', id, '--dry-run'], { env });
    expect(dry.out).toMatch(
      /^3 intervals missed while paused .*\n2 requested intervals without data since /,
    );
    const plain = await runCli(['exports', 'unpause', id], { env });
    expect(plain.out).toMatch(
      /^Not exported, because it was paused: .* `sluice backfill "Events to S3" --from /m,
    );
    expect(plain.out).toMatch(
      /^2 requested intervals without data since .* --reprocess missing`$/m,
    );
    expect((await client.get(`${path}/backfills`)).body.results).toEqual([]);

    const [range] = await api.db.query<{ start_at: string; end_at: string }>(
      `select date_trunc('hour', now(), 'UTC') - interval '7 hours' as start_at, date_trunc('hour', now(), 'UTC') as end_at`,
    );
    const preview = { ...range, reprocess: 'missing', dry_run: true };
    const { intervals } = (await client.post(`${path}/backfill`, preview)).body;
    expect(intervals).toHaveLength(2);
    await client.post(`${path}/pause`);
    const { status, body } = await client.post(`${path}/unpause`, {
      backfill: true,
      retry_missing: true,
    });
    expect([status, body.backfill_total_runs]).toEqual([200, 2]);
    const { results } = (await client.get(`${path}/backfills`)).body;
    expect(results).toMatchObject([
      { reprocess: 'missing', total_runs: expect.any(Number), ...range },
    ]);
  });
});

describe('delete', () => {
  test('answers 204 without a body, and every path under it is 404 afterwards', async () => {
    const { id } = await create({ start_at: '2024-03-01T00:00:00Z', backfill: true });
    const deleted = await client.delete(`${exports}/${id}/`);
    expect(deleted.status).toBe(204);
    expect(deleted.text).toBe('');
    for (const path of ['', '/runs', '/logs', '/backfills']) {
      expect((await client.get(`${exports}/${id}${path}`)).status, path).toBe(404);
    }
    for (const path of ['/pause', '/unpause', '/backfill']) {
      expect((await client.post(`${exports}/${id}${path}`)).status, path).toBe(404);
    }
    expect((await client.delete(`${exports}/${id}`)).status).toBe(404);
    const { body } = await client.get(`${exports}?limit=1000`);
    expect(body.results.map((found) => found.id)).not.toContain(id);
  });

  test('cancels the live backfills of the export', async () => {
    const { id, backfill_id } = await create({ start_at: '2024-03-01T00:00:00Z', backfill: true });
    expect((await client.delete(`${exports}/${id}`)).status).toBe(204);
    const [row] = await api.db.query<{ status: string }>(
      'select status from backfills where id = $1',
      [backfill_id],
    );
    expect(row?.status).toBe('Cancelled');
  });
});
