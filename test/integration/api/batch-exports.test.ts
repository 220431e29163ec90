import { describe, expect, test } from 'vitest';
import { useApi } from '../../support/api-under-test.ts';
import { firstByDay } from '../../support/nightly.ts';
import { exportBody, s3Defaults } from '../../support/batch-export-bodies.ts';

const api = useApi();

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;

test('retrieve answers what create answered', async () => {
  const created = await api.create();
  const { status, body } = await api.get(`${api.exports}/${created.id}/`);
  expect(status).toBe(200);
  expect(body).toEqual(created);
});

describe('create', () => {
  test('answers 201 with the whole export', async () => {
    const { status, body } = await api.post(`${api.exports}/`, exportBody());
    expect(status).toBe(201);
    expect(body).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      team_id: api.teamId,
      name: 'Events to S3',
      destination: {
        type: 'S3',
        config: { ...s3Defaults, bucket_name: 'my-events', region: 'us-east-1' },
      },
      interval: 'hour',
      paused: false,
      created_at: expect.stringMatching(instant),
      last_updated_at: expect.stringMatching(instant),
      last_paused_at: null,
      start_at: null,
      end_at: null,
      latest_runs: [],
      dsl_query: null,
      filters: null,
      schema: null,
      model: 'events',
      timezone: 'UTC',
      offset_day: null,
      offset_hour: null,
      transformations: false,
      paused_reason: null,
      next_run_at: expect.stringMatching(/:00:00\.000000Z$/),
      high_water_mark: null,
      unsettled_from: null,
      missing: { count: 0, since: null },
      health: 'fine',
      health_reason: null,
      secrets: [
        { name: 'aws_access_key_id', ends_with: 'MPLE' },
        { name: 'aws_secret_access_key', ends_with: null },
      ],
      failure_streak: 0,
      heal_for_hours: 168,
      statement_shows: 'digests',
      look_back_hours: null,
      mode: 'append',
      keep_snapshots: 30,
      new_base: 0,
      late_rows_added: null,
      deadline_minutes: null,
      deadline_at: null,
      warn_minutes: null,
      healing: null,
      last_success_at: null,
      late_since: null,
    });
  });

  test('takes every write field', async () => {
    const body = await api.create({
      interval: 'week',
      timezone: 'Europe/Berlin',
      offset_day: 1,
      offset_hour: 6,
      start_at: '2024-03-01T00:00:00.123456+02:00',
      end_at: '2124-03-01',
      dsl_query: 'select event from events where event = $$x$$',
      transformations: true,
    });
    expect(body).toMatchObject({
      interval: 'week',
      timezone: 'Europe/Berlin',
      offset_day: 1,
      offset_hour: 6,
      start_at: '2024-02-29T22:00:00.123456Z',
      end_at: '2124-03-01T00:00:00.000000Z',
      dsl_query: 'select event from events where event = $$x$$',
      schema: { fields: [{ expression: 'event', alias: 'event' }], values: {} },
      transformations: true,
    });
  });

  test('ignores read-only fields', async () => {
    for (const team_id of [424_242, null, 'x', 1.5, {}]) {
      const shown = { team_id, id: 'x', created_at: '2000-01-01T00:00:00Z', failure_streak: 9 };
      const body = await api.create({ ...shown, latest_runs: [{ id: 1 }] });
      const right = { id: body.id, team_id: api.teamId, latest_runs: [], failure_streak: 0 };
      expect(body).toMatchObject(right);
      expect(body.id).not.toBe('x');
      const changed = await api.patch(`${api.exports}/${body.id}`, shown);
      expect(changed).toMatchObject({ status: 200, body: right });
    }
  });

  test('a name may have 400 characters, and need not be unique', async () => {
    const name = 'ü'.repeat(400);
    await api.create({ name });
    expect((await api.create({ name })).name).toBe(name);
  });

  test('created paused, it says since when, and has no next run', async () => {
    expect(await api.create({ paused: true })).toMatchObject({
      paused: true,
      last_paused_at: expect.stringMatching(instant),
      next_run_at: null,
    });
  });

  test('with backfill, exports from start_at to now', async () => {
    const body = await api.create({ start_at: '2024-03-01T00:00:00Z', backfill: true });
    const backfill = await api.get(`${api.exports}/${body.id}/backfills/${body.backfill_id}`);
    expect(backfill.body).toMatchObject({
      status: 'Running',
      start_at: '2024-03-01T00:00:00.000000Z',
    });
  });
});

describe('the lists', () => {
  test('list is newest first, with a true count and links that keep other parameters', async () => {
    const older = await api.create({ name: 'older' });
    const newer = await api.create({ name: 'newer' });
    const first = await api.get(`${api.exports}?limit=1&x=1`);
    expect(first.body.results.map(({ id }) => id)).toEqual([newer.id]);
    expect(first.body.previous).toBeNull();
    expect(first.body.next).toBe(`${api.baseUrl}${api.exports}?limit=1&x=1&offset=1`);
    const second = await api.get(String(first.body.next));
    expect(second.body.results.map(({ id }) => id)).toEqual([older.id]);
    expect(second.body.previous).toBe(`${api.baseUrl}${api.exports}?limit=1&x=1`);
    expect(second.body.count).toBe(first.body.count);
  });
});

describe('the organization path', () => {
  const organization = () => `/api/organizations/${api.tenant.organizationId}/batch_exports`;

  test('lists, reads and changes the exports of all projects', async () => {
    const [first, second] = api.tenant.projectIds;
    const inFirst = await api.post(organization(), exportBody({ team_id: first }));
    const inSecond = await api.post(organization(), exportBody({ team_id: second }));
    expect([inFirst.body.team_id, inSecond.body.team_id]).toEqual([first, second]);
    const listed = await api.get(`${organization()}?limit=2`);
    expect(listed.body.results.map(({ id }) => id)).toEqual([inSecond.body.id, inFirst.body.id]);
    const path = `${organization()}/${inSecond.body.id}`;
    expect((await api.patch(path, { name: 'o' })).body.name).toBe('o');
    expect((await api.post(`${path}/pause`)).body.paused).toBe(true);
    expect((await api.delete(path)).status).toBe(204);
  });
});

describe('a value that no database can hold is an error of the request', () => {
  test('offsets and limits beyond what a number holds', async () => {
    const { id } = await api.create();
    for (const digits of [16, 19, 30, 300]) {
      const huge = '9'.repeat(digits);
      for (const list of ['', `/${id}/logs`]) {
        const { status, body } = await api.get(
          `${api.exports}${list}?offset=${huge}&limit=${huge}`,
        );
        expect([list, digits, status]).toEqual([list, digits, 200]);
        expect(body.results).toEqual([]);
      }
    }
  });

  const firstDay = { start_at: '0001-01-01T00:00:00Z', end_at: '2024-03-02T00:00:00Z' };

  test.each(firstByDay(2, ['week', 'every 5 minutes', 'day', 'hour']))(
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
  expect(asked.length).toBeGreaterThan(12);
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
