import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { createPostgresSource, ensureEventsTable } from '../../../src/rows/sources/index.ts';
import { useApi } from '../../support/api-under-test.ts';
import { exportBody, s3 } from '../../support/batch-export-bodies.ts';
import { atNight } from '../../support/nightly.ts';
import { allowBriefReceipts } from '../../support/brief-receipts.ts';

const api = useApi();
beforeAll(async () => {
  await allowBriefReceipts(api.db);
  await ensureEventsTable(api.databaseUrl);
});

const march = { start_at: '2024-03-01T00:00:00Z', end_at: '2024-03-02T00:00:00Z' };

describe('start', () => {
  test('answers the export with the backfill and its widened range', async () => {
    const path = await api.createPath();
    const { status, body } = await api.post(`${path}/backfill/`, {
      start_at: '2024-03-01T00:30:00+00:00',
      end_at: '2024-03-01T05:30:00+02:00',
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      name: 'Events to S3',
      backfill_start_at: '2024-03-01T00:00:00.000000Z',
      backfill_end_at: '2024-03-01T04:00:00.000000Z',
    });
    const backfill = await api.get(`${path}/backfills/${body.backfill_id}`);
    expect(backfill.body).toMatchObject({
      id: body.backfill_id,
      status: 'Running',
      start_at: '2024-03-01T00:00:00.000000Z',
      end_at: '2024-03-01T04:00:00.000000Z',
      order: 'oldest_first',
      reprocess: 'all',
      missing_rows: 'keep',
      concurrency: 2,
      total_runs: 4,
      finished_runs: 0,
      failed_runs: 0,
      progress: 0,
      eta: null,
      finished_at: null,
    });
  });

  atNight('beyond the limit of concurrent backfills is refused with Retry-After', async () => {
    const [, team] = api.tenant.projectIds;
    const path = `/api/projects/${team}/batch_exports`;
    const start = async () => {
      const { body } = await api.post(path, exportBody());
      return api.post(`${path}/${body.id}/backfill`, march);
    };
    for (let running = 0; running < 20; running += 1) expect((await start()).status).toBe(200);
    const { status, headers, body } = await start();
    expect([status, body.type, body.code]).toEqual([429, 'throttled_error', 'throttled']);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  });

  test('a missing bound is that of the export', async () => {
    const path = await api.createPath({ start_at: march.start_at, end_at: march.end_at });
    const { body } = await api.post(`${path}/backfill`, {});
    expect(body.backfill_end_at).toBe('2024-03-02T00:00:00.000000Z');
  });

  test('takes order, reprocess and concurrency', async () => {
    const path = await api.createPath();
    const options = {
      ...{ order: 'newest_first', reprocess: 'failed', concurrency: 7 },
      missing_rows: 'drop',
    };
    const { body } = await api.post(`${path}/backfill`, { ...march, ...options });
    expect((await api.get(`${path}/backfills/${body.backfill_id}`)).body).toMatchObject(options);
  });

  test('a paused export can be backfilled, and stays paused', async () => {
    const path = await api.createPath({ paused: true });
    const { status, body } = await api.post(`${path}/backfill`, march);
    expect([status, body.paused]).toEqual([200, true]);
  });

  test('dry_run answers what would be done, and stores nothing', async () => {
    const path = await api.createPath();
    const { status, body } = await api.post(`${path}/backfill`, { ...march, dry_run: true });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      dry_run: true,
      start_at: '2024-03-01T00:00:00.000000Z',
      end_at: '2024-03-02T00:00:00.000000Z',
      total_runs: 24,
      already_completed: [],
      estimated_rows: null,
      estimated_bytes: null,
    });
    expect(body.intervals).toHaveLength(24);
    expect((await api.get(`${path}/backfills`)).body.results).toEqual([]);
  });
});

describe('a dry run over delivered rows', () => {
  const at = (hour: number) => `2024-03-01T0${hour}:00:00.000000Z`;

  /** An export of four hours of `rows` rows each; the files of all but the last have `delivered` rows. */
  async function deliver(rows: readonly number[], delivered: readonly number[]) {
    const path = await api.createPath({ destination: s3({ include_events: [randomUUID()] }) });
    const { body } = await api.get(path);
    const [event = ''] = body.destination.config.include_events as string[];
    for (const [hour, count] of rows.entries()) {
      await api.sql`insert into events (uuid, team_id, event, inserted_at)
         select gen_random_uuid(), ${api.teamId}, ${event}, ${at(hour)}::timestamptz + n * interval '1 second'
           from generate_series(1, ${count}::int) n`;
    }
    const source = createPostgresSource({ connectionString: api.databaseUrl });
    for (const [hour, count] of delivered.entries()) {
      const interval = { start: Date.parse(at(hour)), end: Date.parse(at(hour + 1)) };
      const request = {
        ...{ model: 'events', tenantKey: String(api.teamId), interval, dslQuery: null },
        ...{ includeEvents: [event], excludeEvents: null },
      };
      const nothing = { snapshot: '', digest: null, count: -1 };
      const signal = AbortSignal.timeout(30_000);
      const { now } = await source.lookAgain(request, nothing, null, signal);
      await api.db.query(
        `with run as (
           insert into runs (export_id, team_id, data_interval_start, data_interval_end, status, finished_at)
           values ($1, $2, $3, $4, 'Completed', now()) returning id
         )
         insert into receipts (export_id, data_interval_start, data_interval_end, run_id, files, rejected_files, rows, bytes, delivered_digest, settled)
         select $1, $3, $4, id, $5, '[{"key": "r", "rows": 1}]', 0, 0, $6, true from run`,
        [
          ...[body.id, api.teamId, at(hour), at(hour + 1)],
          JSON.stringify([{ key: 'a', rows: count - 1 }]),
          now.digest,
        ],
      );
    }
    const remove = (hour: number, most: number) =>
      api.sql`delete from events where event = ${event} and uuid in (select uuid from events where event = ${event}
            and inserted_at >= ${at(hour)} and inserted_at < ${at(hour)}::timestamptz + interval '1 hour' order by uuid
              limit ${most})`;
    const dryRun = async (more: object = {}) => {
      const asked = { start_at: at(0), end_at: at(4), dry_run: true, ...more };
      return (await api.post(`${path}/backfill`, asked)).body;
    };
    return { path, id: String(body.id), remove, dryRun };
  }

  const numbersOf = (body: Record<string, unknown>) =>
    (body.intervals as Record<string, unknown>[]).map((one) => [
      one.delivered_rows,
      one.rows_now,
      one.would_go,
      one.would_go_is,
    ]);

  test('says for each interval how many rows are delivered, are there now, and would go', async () => {
    const { dryRun, remove } = await deliver([5, 5, 5, 5], [5, 5, 5]);
    const untouched = await dryRun();
    expect(numbersOf(untouched)).toEqual([
      [5, 5, 0, 'exact'],
      [5, 5, 0, 'exact'],
      [5, 5, 0, 'exact'],
      [0, null, 0, 'exact'],
    ]);
    expect(untouched.totals).toEqual({
      ...{ delivered_rows: 15, rows_now: 15, would_go: 0, would_go_is: 'exact' },
      ...{ compared_intervals: 3, left_out: null },
    });
    await remove(0, 2);
    await remove(1, 5);
    const pruned = await dryRun();
    expect(numbersOf(pruned)).toEqual([
      [5, 3, 2, 'at_least'],
      [5, 0, 5, 'exact'],
      [5, 5, 0, 'exact'],
      [0, null, 0, 'exact'],
    ]);
    expect(pruned.totals).toMatchObject({ would_go: 7, would_go_is: 'at_least', left_out: null });
    // Completed intervals get no run.
    const failed = await dryRun({ reprocess: 'failed' });
    expect(numbersOf(failed)).toEqual([[0, null, 0, 'exact']]);
    expect(failed.totals).toMatchObject({ delivered_rows: 0, would_go: 0, would_go_is: 'exact' });
  });

  test('does not call other rows the same because there are as many', async () => {
    const { dryRun, remove, id } = await deliver([3, 3], [3]);
    await remove(0, 1);
    await api.sql`insert into events (uuid, team_id, event, inserted_at)
       select gen_random_uuid(), ${api.teamId}, destination_config->'include_events'->>0, ${at(0)} from batch_exports
         where id = ${id}`;
    expect(numbersOf(await dryRun())[0]).toEqual([3, 3, 0, 'at_least']);
  });

  test('counts no files of a place that the export has left', async () => {
    const { dryRun, path } = await deliver([3], [3]);
    await api.patch(path, { destination: { config: { bucket_name: 'another-bucket' } } });
    expect(numbersOf(await dryRun())[0]).toEqual([0, null, 0, 'exact']);
  });

  test('knows nothing, and says why, if the source cannot be asked', async () => {
    const { dryRun, id } = await deliver([3], [3]);
    await api.sql`
      update batch_exports set dsl_query = 'select nothing from events' where id = ${id}`;
    const body = await dryRun();
    expect(numbersOf(body)[0]).toEqual([3, null, null, null]);
    expect(body.totals).toMatchObject({
      ...{ delivered_rows: 3, rows_now: null, would_go: null, would_go_is: null },
      left_out: expect.stringMatching(
        /^Intervals with delivered rows that were not compared with the source: 1\. query\./,
      ),
    });
  });
});

describe('a retry', () => {
  /** An ended run of an export. */
  async function createEnded(purpose: string) {
    const path = await api.createPath();
    const [run] = await api.sql<{ id: string }>`
      insert into runs (export_id, team_id, data_interval_start, data_interval_end, status, finished_at, purpose)
       values (${path.split('/').at(-1)}, ${api.teamId}, '2024-03-01T00:00:00Z', '2024-03-01T01:00:00Z', 'Failed',
         now(), ${purpose}) returning id`;
    const retry = (body?: object) => api.post(`${path}/runs/${run?.id}/retry`, body);
    const dropsOf = (id: unknown) => api.sql.value`select drops_missing from runs where id = ${id}`;
    return { retry, dropsOf };
  }

  test.each([
    [undefined, false],
    [{ missing_rows: 'keep' }, false],
    [{ missing_rows: 'drop' }, true],
  ])('with %o keeps missing rows unless it says drop', async (body, drops) => {
    const { retry, dropsOf } = await createEnded('whole');
    const made = await retry(body);
    expect([made.status, made.body.purpose]).toEqual([201, 'whole']);
    expect(await dropsOf(made.body.id)).toBe(drops);
  });

  test('of a run that adds late rows adds late rows, and takes no missing_rows', async () => {
    const { retry } = await createEnded('supplement');
    const refused = await retry({ missing_rows: 'keep' });
    expect([refused.status, refused.body.attr]).toEqual([400, 'missing_rows']);
    const made = await retry();
    expect([made.status, made.body.purpose]).toEqual([201, 'supplement']);
  });

  test('refuses another value, and other fields', async () => {
    const { retry } = await createEnded('whole');
    expect((await retry({ missing_rows: 'lose' })).body).toMatchObject({
      ...{ code: 'invalid_choice', attr: 'missing_rows' },
    });
    expect((await retry({ reprocess: 'all' })).status).toBe(400);
  });
});

describe('list and cancel', () => {
  test('list is newest first, in pages', async () => {
    const path = await api.createPath();
    const ids: unknown[] = [];
    for (const day of [1, 2, 3]) {
      const start_at = `2024-03-0${day}T00:00:00Z`;
      const body = { start_at, end_at: `2024-03-0${day}T05:00:00Z` };
      ids.unshift((await api.post(`${path}/backfill`, body)).body.backfill_id);
    }
    const first = await api.get(`${path}/backfills?limit=2`);
    const second = await api.get(String(first.body.next));
    const found = [...first.body.results, ...second.body.results].map(({ id }) => id);
    expect(found).toEqual(ids);
    expect(second.body.next).toBeNull();
    const back = await api.get(String(second.body.previous));
    expect(back.body.results.map(({ id }) => id)).toEqual(ids.slice(0, 2));
  });

  test('cancel ends it, once; its live runs end too unless they may finish', async () => {
    for (const [running, statuses] of [
      ['cancel', ['Cancelled']],
      ['finish', ['Starting', 'Running']],
    ] as const) {
      const path = await api.createPath();
      const { body } = await api.post(`${path}/backfill`, march);
      // If a worker runs, it may be the one that makes the first run.
      await api.sql`insert into runs (export_id, team_id, backfill_id, data_interval_start, data_interval_end)
         select export_id, team_id, id, start_at, start_at + interval '1 hour' from backfills
           where id = ${body.backfill_id}
         on conflict do nothing`;
      const [run] = await api.sql<{ id: string }>`
        select id from runs where backfill_id = ${body.backfill_id} order by data_interval_start limit 1`;
      const cancelled = await api.post(`${path}/backfills/${body.backfill_id}/cancel`, { running });
      expect([cancelled.status, cancelled.body.status]).toEqual([200, 'Cancelled']);
      expect(statuses).toContain((await api.get(`${path}/runs/${run?.id}`)).body.status);
      const again = await api.post(`${path}/backfills/${body.backfill_id}/cancel`);
      expect(again.status).toBe(400);
    }
  });
});
