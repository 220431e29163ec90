import { describe, expect, test } from 'vitest';
import { useApi } from '../../support/api-under-test.ts';
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
