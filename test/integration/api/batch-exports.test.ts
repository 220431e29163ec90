import { beforeAll, describe, expect, test } from 'vitest';
import type { ApiClient } from '../../support/api-client.ts';
import { startApiUnderTest } from '../../support/api-under-test.ts';
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

describe('create', () => {
  test('answers 201 with the whole export', async () => {
    const { status, body } = await client.post(`${exports}/`, exportBody());
    expect(status).toBe(201);
    expect(body).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      team_id: api.tenant.projectIds[0],
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
    const body = await create({
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
    const body = await create({
      id: '00000000-0000-0000-0000-000000000000',
      team_id: 424_242,
      created_at: '2000-01-01T00:00:00Z',
      latest_runs: [{ id: 1 }],
      failure_streak: 9,
    });
    expect(body).toMatchObject({
      team_id: api.tenant.projectIds[0],
      latest_runs: [],
      failure_streak: 0,
    });
    expect(body.id).not.toBe('00000000-0000-0000-0000-000000000000');
  });

  test('names every field that is missing', async () => {
    const { status, body } = await client.post(exports, {});
    expect(status).toBe(400);
    expect(body.errors.map(({ code, attr }) => [code, attr])).toEqual([
      ['required', 'name'],
      ['required', 'destination'],
      ['required', 'interval'],
    ]);
    expect(body).toMatchObject({ type: 'validation_error', code: 'required', attr: 'name' });
  });

  test('collects the faults of all fields, nested ones joined by __', async () => {
    const { body } = await client.post(exports, {
      name: '  ',
      interval: 'fortnight',
      paused: 'true',
      start_at: 'yesterday',
      destination: s3({ bucket_name: null, colour: 'red', shape: 'round', file_format: 'XML' }),
    });
    const found = new Map(body.errors.map(({ attr, code }) => [attr, code]));
    expect(Object.fromEntries(found)).toEqual({
      name: 'blank',
      interval: 'invalid_choice',
      paused: 'incorrect_type',
      start_at: 'invalid_input',
      destination__config__bucket_name: 'null',
      destination__config__colour: 'invalid_input',
      destination__config__shape: 'invalid_input',
      destination__config__file_format: 'invalid_choice',
    });
  });

  test.each([
    ['a name of 401 characters', { name: 'x'.repeat(401) }, 'name', 'max_length'],
    ['a name that is a number', { name: 5 }, 'name', 'incorrect_type'],
    ['a name that is null', { name: null }, 'name', 'null'],
    ['a name with NUL', { name: 'a\0b' }, 'name', 'invalid_input'],
    ['a name with half a surrogate pair', { name: 'a\ud800' }, 'name', 'invalid_input'],
    ['an interval below the least', { interval: 'every 1 minutes' }, 'interval', 'min_value'],
    ['no type', { destination: { config: {} } }, 'destination__type', 'required'],
    [
      'a type that does not exist',
      { destination: { type: 'FTP', config: {} } },
      'destination__type',
      'invalid_choice',
    ],
    ['no config', { destination: { type: 'S3' } }, 'destination__config', 'required'],
    [
      'half a pair of keys',
      { destination: s3({ aws_secret_access_key: null }) },
      'destination__config__aws_secret_access_key',
      'required',
    ],
    [
      'an end before the start',
      { start_at: '2024-03-02', end_at: '2024-03-01' },
      'end_at',
      'invalid_input',
    ],
    [
      'an end at the start',
      { start_at: '2024-03-01', end_at: '2024-03-01' },
      'end_at',
      'invalid_input',
    ],
    [
      'a day that does not exist',
      { start_at: '2024-02-30T00:00:00Z' },
      'start_at',
      'invalid_input',
    ],
    [
      'an unknown zone',
      { interval: 'day', timezone: 'Mars/Olympus' },
      'timezone',
      'invalid_choice',
    ],
    ['an offset for an hourly export', { offset_hour: 3 }, 'offset_hour', 'invalid_input'],
    [
      'a day offset for a daily export',
      { interval: 'day', offset_day: 3 },
      'offset_day',
      'invalid_input',
    ],
    ['an offset past the day', { interval: 'day', offset_hour: 24 }, 'offset_hour', 'max_value'],
    ['an unknown model', { model: 'users' }, 'model', 'invalid_choice'],
    [
      'a query of another relation',
      { dsl_query: 'select a from users' },
      'dsl_query',
      'invalid_input',
    ],
    [
      'a computed column with transformations',
      { dsl_query: 'select upper(event) as e from events', transformations: true },
      'dsl_query',
      'invalid_input',
    ],
    ['a backfill without a start', { backfill: true }, 'start_at', 'required'],
    [
      'an unbalanced prefix',
      { destination: s3({ prefix: '{year' }) },
      'destination__config__prefix',
      'invalid_input',
    ],
  ])('refuses %s', async (_what, changes, attr, code) => {
    const { status, body } = await client.post(exports, exportBody(changes));
    expect(status).toBe(400);
    expect(body).toMatchObject({ type: 'validation_error', attr, code });
    expect(body.errors).toHaveLength(1);
  });

  test('a name may have 400 characters, and need not be unique', async () => {
    const name = 'ü'.repeat(400);
    await create({ name });
    expect((await create({ name })).name).toBe(name);
  });

  test('created paused, it says since when, and has no next run', async () => {
    expect(await create({ paused: true })).toMatchObject({
      paused: true,
      last_paused_at: expect.stringMatching(instant),
      next_run_at: null,
    });
  });

  test('with backfill, exports from start_at to now', async () => {
    const body = await create({ start_at: '2024-03-01T00:00:00Z', backfill: true });
    const backfill = await client.get(`${exports}/${body.id}/backfills/${body.backfill_id}`);
    expect(backfill.body).toMatchObject({
      status: 'Running',
      start_at: '2024-03-01T00:00:00.000000Z',
    });
  });
});

describe('retrieve and list', () => {
  test('retrieve answers what create answered', async () => {
    const created = await create();
    const { status, body } = await client.get(`${exports}/${created.id}/`);
    expect(status).toBe(200);
    expect(body).toEqual(created);
  });

  test('list is newest first, with a true count and links that keep other parameters', async () => {
    const older = await create({ name: 'older' });
    const newer = await create({ name: 'newer' });
    const first = await client.get(`${exports}?limit=1&x=1`);
    expect(first.body.results.map(({ id }) => id)).toEqual([newer.id]);
    expect(first.body.previous).toBeNull();
    expect(first.body.next).toBe(`${api.baseUrl}${exports}?limit=1&x=1&offset=1`);
    const second = await client.get(String(first.body.next));
    expect(second.body.results.map(({ id }) => id)).toEqual([older.id]);
    expect(second.body.previous).toBe(`${api.baseUrl}${exports}?limit=1&x=1`);
    expect(second.body.count).toBe(first.body.count);
  });

  test('past the end is an empty page with the true count', async () => {
    const { count } = (await client.get(exports)).body;
    const { status, body } = await client.get(`${exports}?offset=100000`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ count, results: [], next: null });
    expect(count).toBeGreaterThan(0);
  });

  test.each([
    'limit=0',
    'limit=-1',
    'limit=x',
    'limit=1.5',
    'limit=',
    'limit=1&limit=2',
    'offset=-1',
    'offset=1e3',
  ])('refuses ?%s', async (query) => {
    const { status, body } = await client.get(`${exports}?${query}`);
    expect(status).toBe(400);
    expect(body.attr).toBe(query.split('=')[0]);
  });

  test('an export of another project is not found in this one', async () => {
    const { id } = await create();
    const other = `/api/projects/${api.tenant.projectIds[1]}/batch_exports/${id}`;
    expect((await client.get(other)).status).toBe(404);
  });

  test.each(['nonsense', '00000000-0000-4000-8000-000000000000', '1', '%00', 'x'.repeat(300)])(
    'an unknown id is 404: %s',
    async (id) => {
      const { status, body } = await client.get(`${exports}/${id}`);
      expect(status).toBe(404);
      expect(body).toMatchObject({ type: 'invalid_request', code: 'not_found', attr: null });
    },
  );
});

describe('the organization path', () => {
  const organization = () => `/api/organizations/${api.tenant.organizationId}/batch_exports`;

  test('lists, reads and changes the exports of all projects', async () => {
    const [first, second] = api.tenant.projectIds;
    const inFirst = await client.post(organization(), exportBody({ team_id: first }));
    const inSecond = await client.post(organization(), exportBody({ team_id: second }));
    expect([inFirst.body.team_id, inSecond.body.team_id]).toEqual([first, second]);
    const listed = await client.get(`${organization()}?limit=2`);
    expect(listed.body.results.map(({ id }) => id)).toEqual([inSecond.body.id, inFirst.body.id]);
    const path = `${organization()}/${inSecond.body.id}`;
    expect((await client.patch(path, { name: 'o' })).body.name).toBe('o');
    expect((await client.post(`${path}/pause`)).body.paused).toBe(true);
    expect((await client.delete(path)).status).toBe(204);
  });

  test('create needs a team_id if there are several projects', async () => {
    const { status, body } = await client.post(organization(), exportBody());
    expect(status).toBe(400);
    expect(body).toMatchObject({ code: 'required', attr: 'team_id' });
  });

  test('a foreign team_id does not exist', async () => {
    const { status, body } = await client.post(organization(), exportBody({ team_id: 999_999 }));
    expect(status).toBe(400);
    expect(body).toMatchObject({ code: 'does_not_exist', attr: 'team_id' });
  });
});
