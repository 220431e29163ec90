import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ApiClient } from '../../support/api-client.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';

let api: ApiUnderTest;
let client: ApiClient;
let exports: string;

beforeAll(async () => {
  api = await startApiUnderTest();
  client = api.client;
  exports = `${api.project}/batch_exports`;
});
afterAll(() => api.stop());

const march = { start_at: '2024-03-01T00:00:00Z', end_at: '2024-03-02T00:00:00Z' };

async function create(changes: Readonly<Record<string, unknown>> = {}): Promise<string> {
  return `${exports}/${(await client.post(exports, exportBody(changes))).body.id}`;
}

describe('start', () => {
  test('answers the export with the backfill and its widened range', async () => {
    const path = await create();
    const { status, body } = await client.post(`${path}/backfill/`, {
      start_at: '2024-03-01T00:30:00+00:00',
      end_at: '2024-03-01T05:30:00+02:00',
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      name: 'Events to S3',
      backfill_start_at: '2024-03-01T00:00:00.000000Z',
      backfill_end_at: '2024-03-01T04:00:00.000000Z',
    });
    const backfill = await client.get(`${path}/backfills/${body.backfill_id}`);
    expect(backfill.body).toMatchObject({
      id: body.backfill_id,
      status: 'Running',
      start_at: '2024-03-01T00:00:00.000000Z',
      end_at: '2024-03-01T04:00:00.000000Z',
      order: 'oldest_first',
      reprocess: 'all',
      concurrency: 2,
      total_runs: 4,
      finished_runs: 0,
      failed_runs: 0,
      progress: 0,
      eta: null,
      finished_at: null,
    });
  });

  test('beyond the limit of concurrent backfills is refused with Retry-After', async () => {
    const [, team] = api.tenant.projectIds;
    const path = `/api/projects/${team}/batch_exports`;
    const start = async () => {
      const { body } = await client.post(path, exportBody());
      return client.post(`${path}/${body.id}/backfill`, march);
    };
    for (let running = 0; running < 20; running += 1) expect((await start()).status).toBe(200);
    const { status, headers, body } = await start();
    expect([status, body.type, body.code]).toEqual([429, 'throttled_error', 'throttled']);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  });

  test('a missing bound is that of the export', async () => {
    const path = await create({ start_at: march.start_at, end_at: march.end_at });
    const { body } = await client.post(`${path}/backfill`, {});
    expect(body.backfill_end_at).toBe('2024-03-02T00:00:00.000000Z');
  });

  test('takes order, reprocess and concurrency', async () => {
    const path = await create();
    const options = { order: 'newest_first', reprocess: 'failed', concurrency: 7 };
    const { body } = await client.post(`${path}/backfill`, { ...march, ...options });
    expect((await client.get(`${path}/backfills/${body.backfill_id}`)).body).toMatchObject(options);
  });

  test('a paused export can be backfilled, and stays paused', async () => {
    const path = await create({ paused: true });
    const { status, body } = await client.post(`${path}/backfill`, march);
    expect([status, body.paused]).toEqual([200, true]);
  });

  test.each([
    ['no bounds', {}, 'start_at', 'required'],
    ['no end', { start_at: march.start_at }, 'end_at', 'required'],
    [
      'a start without an offset',
      { ...march, start_at: '2024-03-01T00:00:00' },
      'start_at',
      'invalid_input',
    ],
    ['an end without an offset', { ...march, end_at: '2024-03-02' }, 'end_at', 'invalid_input'],
    [
      'an end in the future',
      { ...march, end_at: '2124-03-01T00:00:00Z' },
      'end_at',
      'invalid_input',
    ],
    [
      'a start after the end',
      { start_at: march.end_at, end_at: march.start_at },
      'start_at',
      'invalid_input',
    ],
    [
      'a start at the end',
      { start_at: march.end_at, end_at: march.end_at },
      'start_at',
      'invalid_input',
    ],
    ['a start that is no time', { ...march, start_at: 'x' }, 'start_at', 'invalid_input'],
    ['an unknown order', { ...march, order: 'random' }, 'order', 'invalid_choice'],
    ['no concurrency', { ...march, concurrency: 0 }, 'concurrency', 'min_value'],
  ])('refuses %s', async (_what, body, attr, code) => {
    const answer = await client.post(`${await create()}/backfill`, body);
    expect(answer.status).toBe(400);
    expect(answer.body).toMatchObject({ attr, code });
  });

  test('a range that is being backfilled is 409', async () => {
    const path = await create();
    await client.post(`${path}/backfill`, march);
    const { status, body } = await client.post(`${path}/backfill`, march);
    expect([status, body.code, body.type]).toEqual([409, 'conflict', 'invalid_request']);
  });

  test('dry_run answers what would be done, and stores nothing', async () => {
    const path = await create();
    const { status, body } = await client.post(`${path}/backfill`, { ...march, dry_run: true });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      dry_run: true,
      start_at: '2024-03-01T00:00:00.000000Z',
      end_at: '2024-03-02T00:00:00.000000Z',
      total_runs: 24,
      already_completed: [],
      estimated_rows: null,
    });
    expect(body.intervals).toHaveLength(24);
    expect((await client.get(`${path}/backfills`)).body.results).toEqual([]);
  });
});

describe('list and cancel', () => {
  test('list is newest first, in pages', async () => {
    const path = await create();
    const ids: unknown[] = [];
    for (const day of [1, 2, 3]) {
      const start_at = `2024-03-0${day}T00:00:00Z`;
      const body = { start_at, end_at: `2024-03-0${day}T05:00:00Z` };
      ids.unshift((await client.post(`${path}/backfill`, body)).body.backfill_id);
    }
    const first = await client.get(`${path}/backfills?limit=2`);
    const second = await client.get(String(first.body.next));
    const found = [...first.body.results, ...second.body.results].map(({ id }) => id);
    expect(found).toEqual(ids);
    expect(second.body.next).toBeNull();
    const back = await client.get(String(second.body.previous));
    expect(back.body.results.map(({ id }) => id)).toEqual(ids.slice(0, 2));
  });

  test('cancel ends it, once; its live runs end too unless they may finish', async () => {
    for (const [running, statuses] of [
      ['cancel', ['Cancelled']],
      ['finish', ['Starting', 'Running']],
    ] as const) {
      const path = await create();
      const { body } = await client.post(`${path}/backfill`, march);
      // If a worker runs, it may be the one that makes the first run.
      await api.db.query(
        `insert into runs (export_id, team_id, backfill_id, data_interval_start, data_interval_end)
         select export_id, team_id, id, start_at, start_at + interval '1 hour' from backfills where id = $1
         on conflict do nothing`,
        [body.backfill_id],
      );
      const [run] = await api.db.query<{ id: string }>(
        'select id from runs where backfill_id = $1 order by data_interval_start limit 1',
        [body.backfill_id],
      );
      const cancelled = await client.post(`${path}/backfills/${body.backfill_id}/cancel`, {
        running,
      });
      expect(cancelled.status).toBe(200);
      expect(cancelled.body.status).toBe('Cancelled');
      expect(statuses).toContain((await client.get(`${path}/runs/${run?.id}`)).body.status);
      const again = await client.post(`${path}/backfills/${body.backfill_id}/cancel`);
      expect(again.status).toBe(400);
    }
  });

  test('progress counts the runs that ended, and those that failed', async () => {
    const path = await create();
    const { body } = await client.post(`${path}/backfill`, march);
    await api.db.query(
      `insert into runs (export_id, team_id, backfill_id, status, data_interval_start, data_interval_end, finished_at)
       select export_id, team_id, id, case n when 18 then 'Failed' else 'Completed' end,
              start_at + n * interval '1 hour', start_at + (n + 1) * interval '1 hour', now()
         from backfills, generate_series(18, 23) n where id = $1`,
      [body.backfill_id],
    );
    const found = await client.get(`${path}/backfills/${body.backfill_id}`);
    expect(found.body).toMatchObject({ finished_runs: 6, failed_runs: 1, progress: 0.25 });
    expect(found.body.eta).toMatch(/Z$/);
  });

  test('a backfill of another export is 404', async () => {
    const { body } = await client.post(`${await create()}/backfill`, march);
    const other = `${await create()}/backfills/${body.backfill_id}`;
    expect((await client.get(other)).status).toBe(404);
    expect((await client.post(`${other}/cancel`)).status).toBe(404);
  });
});
