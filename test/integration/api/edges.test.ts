import { beforeAll, describe, expect, test } from 'vitest';
import { useApi } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';

let path: string;

const api = useApi();
beforeAll(async () => {
  path = `${api.exports}/${(await api.create()).id}`;
});

describe('a value that no database can hold is an error of the request', () => {
  test('offsets and limits beyond what a number holds', async () => {
    for (const digits of [16, 19, 30, 300]) {
      const huge = '9'.repeat(digits);
      for (const list of ['', `/${path.split('/').at(-1)}/logs`]) {
        const { status, body } = await api.get(
          `${api.exports}${list}?offset=${huge}&limit=${huge}`,
        );
        expect([list, digits, status]).toEqual([list, digits, 200]);
        expect(body.results).toEqual([]);
      }
    }
  });

  const firstDay = { start_at: '0001-01-01T00:00:00Z', end_at: '2024-03-02T00:00:00Z' };

  test.each(['week', 'day', 'hour', 'every 5 minutes'])(
    'a backfill from the first day of the calendar, by %s',
    async (interval) => {
      const timezone = interval === 'week' || interval === 'day' ? 'Asia/Tokyo' : 'UTC';
      const body = await api.create({ interval, timezone });
      for (const dry_run of [true, false]) {
        const bounds = { ...firstDay, dry_run };
        const refused = await api.post(`${api.exports}/${body.id}/backfill`, bounds);
        expect([refused.status, refused.body.attr]).toEqual([400, 'start_at']);
      }
    },
  );

  test('a backfill of local days from the first day of 1970', async () => {
    const settings = { interval: 'day', timezone: 'Asia/Tokyo' };
    const body = await api.create(settings);
    const path = `${api.exports}/${body.id}/backfill`;
    const bounds = { start_at: '1970-01-01T00:00:00Z', end_at: '2024-03-01T15:00:00Z' };
    const preview = await api.post(path, { ...bounds, dry_run: true });
    expect([preview.status, preview.body.total_runs]).toEqual([200, 19_784]);
    const started = await api.post(path, { ...bounds, dry_run: false });
    expect([started.status, started.body.backfill_id]).toEqual([200, expect.any(String)]);
  });

  test('a schedule at the last day of the calendar', async () => {
    const body = exportBody({ interval: 'week', start_at: '9999-12-31T23:59:59Z' });
    const created = await api.post(api.exports, body);
    expect(created.status).toBe(201);
    expect((await api.get(`${api.exports}/${created.body.id}/schedule`)).status).toBe(200);
    expect((await api.get(`${api.exports}/${created.body.id}`)).body).toEqual(created.body);
  });
});

test('an id that cannot be one is 404 on every path of an operator', async () => {
  const operator = await api.asOperator();
  const { body } = await operator.get('/api/openapi.json');
  const paths = Object.entries(body.paths as Record<string, Record<string, unknown>>);
  const asked = paths.flatMap(([path, operations]) =>
    path.startsWith('/api/admin/') && path.includes('{')
      ? Object.keys(operations).map((method) => [method, path] as const)
      : [],
  );
  expect(asked.length).toBeGreaterThan(15);
  // Bodies that each operation accepts.
  const bodies: Record<string, object> = {
    'patch /api/admin/organizations/{organization_id}': { disabled: true },
    'patch /api/admin/projects/{project_id}': { disabled: true },
    'post /api/admin/organizations/{organization_id}/projects': { name: 'X' },
    'post /api/admin/organizations/{organization_id}/keys': { name: 'X', scopes: ['*'] },
    'post /api/admin/exports/{export_id}/act': { action: 'probe' },
  };
  for (const [method, path] of asked) {
    for (const id of ['x', '-1', '1.5', '99999999999999999999', '%F0%9F%98%80']) {
      const answer = await operator.send(method.toUpperCase(), path.replaceAll(/\{\w+\}/g, id), {
        ...(method !== 'get' && method !== 'delete' && { body: bodies[`${method} ${path}`] ?? {} }),
      });
      expect([method, path, id, answer.status]).toEqual([method, path, id, 404]);
    }
  }
});

test('the schedule previews the next 10 intervals, each beginning where the last one ends', async () => {
  const path = await api.createPath({
    interval: 'day',
    timezone: 'America/New_York',
    offset_hour: 3,
  });
  const { status, body } = await api.get(`${path}/schedule`);
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
  const path = await api.createPath({ paused: true });
  const { body } = await api.get(`${path}/schedule`);
  expect(new Set(body.results.map(({ fate }) => fate))).toEqual(new Set(['paused']));
});

test('activity says which key changed what, with before and after, and no secret', async () => {
  const path = await api.createPath();
  await api.patch(path, { name: 'renamed' });
  await api.patch(path, { destination: { config: { aws_secret_access_key: 'canary-second' } } });
  await api.post(`${path}/pause`);
  const { status, body, text } = await api.get(`${path}/activity?limit=10`);
  expect(status).toBe(200);
  expect(body).toMatchObject({
    count: 4,
    results: [
      { action: 'paused' },
      {
        action: 'updated',
        changes: [{ field: 'destination secrets', before: '********', after: '********' }],
      },
      {
        action: 'updated',
        key_id: api.tenant.keyId,
        key_name: 'test',
        changes: [{ field: 'name', before: 'Events to S3', after: 'renamed' }],
      },
      { action: 'created' },
    ],
  });
  expect(text).not.toContain('canary');
  // A new export has what was given, and none of the defaults.
  const created = (body.results[3]?.changes ?? []) as { field: string; after: unknown }[];
  expect(created.map(({ field }) => field)).toEqual([
    ...['name', 'destination', 'interval', 'model', 'destination secrets'],
  ]);
  const destination = (created[1]?.after ?? {}) as { config?: object };
  expect(Object.keys(destination.config ?? {}).toSorted()).toEqual(['bucket_name', 'region']);
});

describe('the forecast of a backfill', () => {
  const march = { start_at: '2024-03-01T00:00:00Z', end_at: '2024-03-02T00:00:00Z' };

  test('dry_run estimates rows and bytes from the runs before', async () => {
    const path = await api.createPath();
    await api.sql`
      insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at,
        records_total_count, bytes_exported)
     select id, team_id, 'Completed', at, at + interval '1 hour', at, 5, 700
       from batch_exports, lateral (select timestamptz '2024-02-01Z' as at) t where id = ${path.split('/').at(-1)}`;
    const known = await api.post(`${path}/backfill`, { ...march, dry_run: true });
    expect(known.body).toMatchObject({ estimated_rows: 120, estimated_bytes: 16_800 });
  });

  test('progress counts the runs that ended, and those that failed', async () => {
    const path = await api.createPath();
    const { body } = await api.post(`${path}/backfill`, march);
    const ended = (from: number, to: number) =>
      api.sql`
        insert into runs (export_id, team_id, backfill_id, status, data_interval_start, data_interval_end, finished_at)
       select export_id, team_id, id, case n when 18 then 'Failed' else 'Completed' end,
              start_at + n * interval '1 hour', start_at + (n + 1) * interval '1 hour', now()
         from backfills, generate_series(${from}::int, ${to}::int) n where id = ${body.backfill_id}`;
    await ended(23, 23);
    // Of 24 runs, one is too few for a forecast.
    const early = await api.get(`${path}/backfills/${body.backfill_id}`);
    expect(early.body).toMatchObject({ finished_runs: 1, eta: null });
    await ended(18, 22);
    const found = await api.get(`${path}/backfills/${body.backfill_id}`);
    expect(found.body).toMatchObject({ finished_runs: 6, failed_runs: 1, progress: 0.25 });
    expect(found.body.eta).toMatch(/Z$/);
  });
});
