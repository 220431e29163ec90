import { describe, expect, test } from 'vitest';
import { appendLogEntries, type LogLevel } from '../../../src/state/store/exports/log-entries.ts';
import type { WireBody } from '../../support/api-client.ts';
import { useApi } from '../../support/api-under-test.ts';

const api = useApi();

/** Its own schedule makes no run meanwhile. */
const createExport = async () => (await api.create({ interval: 'week' })).id;

/** Runs of the hours from 2024-03-01 on, oldest first; created an hour apart, a day ago. */
const insertRuns = (exportId: string, count: number, status = 'Completed') =>
  api.sql.values<string>`
    insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, created_at, finished_at,
                       records_completed, records_total_count)
     select ${exportId}, ${api.teamId}, ${status}, t, t + interval '1 hour',
       now() - interval '1 day' + n * interval '1 minute',
            case when ${status} in ('Starting', 'Running') then null else now() end, 5, 5
       from generate_series(1, ${count}) n, lateral (select timestamptz '2024-03-01Z' + n * interval '1 hour' as t) at
     returning id`;

/** An export with such runs. */
async function withRuns(count: number, status?: string) {
  const exportId = await createExport();
  const ids = await insertRuns(exportId, count, status);
  return { exportId, ids, id: ids[0] ?? '', path: `${api.exports}/${exportId}/runs` };
}

async function readAll(path: string, direction: 'next' | 'previous' = 'next'): Promise<WireBody[]> {
  const all: WireBody[] = [];
  for (let url: string | null = path; url !== null; ) {
    const { body }: { body: WireBody } = await api.get(url);
    all.push(...body.results);
    url = body[direction];
  }
  return all;
}

describe('runs', () => {
  test('a run has the shape of the contract', async () => {
    const { exportId, id, path } = await withRuns(1);
    const { status, body } = await api.get(`${path}/${id}/`);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      id,
      status: 'Completed',
      records_completed: 5,
      latest_error: null,
      data_interval_start: '2024-03-01T01:00:00.000000Z',
      data_interval_end: '2024-03-01T02:00:00.000000Z',
      cursor: null,
      records_total_count: 5,
      batch_export: exportId,
      attempt: 0,
      bytes_exported: 0,
      files: 0,
      records_dropped: 0,
      records_rejected: 0,
      element: null,
      backfill_id: null,
    });
    const listed = await api.get(path);
    expect(Object.keys(listed.body)).toEqual(['next', 'previous', 'results']);
    expect(listed.body.results).toEqual([body]);
  });

  test('a failure is superseded once its interval was exported after it', async () => {
    const { exportId, id, path } = await withRuns(1);
    await api.sql`
      update runs set status = 'Failed', finished_at = now() - interval '1 hour' where id = ${id}`;
    const superseded = async () => (await api.get(`${path}/${id}`)).body.superseded;
    expect(await superseded()).toBe(false);
    await api.sql`
      insert into receipts (export_id, data_interval_start, data_interval_end, run_id, era, destination_version,
        generation, recipe,
              rejected_files, files, snapshot, settled, pending_transactions, key_count, pending_checked_at,
                looked_back_at, rows, bytes)
       select export_id, data_interval_start, data_interval_end, id, gen_random_uuid(), 0, 1,
         '{}', '[]', '[]', '1:1:', true, '{}', 0,
              now(), now(), 0, 0 from runs where id = ${id}`;
    expect(await superseded()).toBe(true);
    const { body } = await api.get(`${api.exports}/${exportId}`);
    expect(body.latest_runs[0]?.superseded).toBe(true);
  });

  test('a run shows the counters of its steps', async () => {
    const { id, path } = await withRuns(1);
    const counted = { config: 7, in: 5, out: 4, dropped: 1, errored: 0, error: null };
    const stored = [{ ...counted, timeMs: 12 }];
    await api.sql`update runs set steps = ${JSON.stringify(stored)} where id = ${id}`;
    const { body } = await api.get(`${path}/${id}/`);
    expect(body.steps).toEqual([{ ...counted, time_ms: 12 }]);
  });

  test('an export shows its 10 latest runs, newest first', async () => {
    const { exportId, ids } = await withRuns(12);
    const { body } = await api.get(`${api.exports}/${exportId}`);
    expect(body.latest_runs.map(({ id }) => id)).toEqual(ids.toReversed().slice(0, 10));
  });

  test('pages forth and back give every run once, while others are added', async () => {
    const { exportId, ids, path } = await withRuns(25);
    const first = await api.get(`${path}?limit=7`);
    expect(first.body.previous).toBeNull();
    await api.sql`
      insert into runs (export_id, team_id, data_interval_start, data_interval_end)
        values (${exportId}, 1, now(), now() + interval '1 s')`;
    const rest = await readAll(String(first.body.next));
    const forth = [...first.body.results, ...rest].map(({ id }) => id);
    expect(forth).toEqual(ids.toReversed());
    // The new run is found on the way back.
    const second = await api.get(String(first.body.next));
    const back = await readAll(String(second.body.previous), 'previous');
    expect(back.map(({ id }) => id).slice(0, 7)).toEqual(forth.slice(0, 7));
    expect(back).toHaveLength(8);
  });

  test('runs of one instant are in one page each, none twice', async () => {
    const { exportId, ids, path } = await withRuns(9);
    await api.sql`update runs set created_at = now() where export_id = ${exportId}`;
    const found = (await readAll(`${path}?limit=2`)).map(({ id }) => id);
    expect(found).toHaveLength(9);
    expect(new Set(found)).toEqual(new Set(ids));
  });

  test.each([
    ['created_at', false],
    ['-created_at', true],
    ['data_interval_start', false],
    ['-data_interval_start', true],
  ])('ordering=%s', async (ordering, descending) => {
    const { ids, path } = await withRuns(5);
    const all = await readAll(`${path}?limit=2&ordering=${ordering}`);
    expect(all.map(({ id }) => id)).toEqual(descending ? ids.toReversed() : ids);
  });

  test('filters by status, creation and interval; links keep them', async () => {
    const { ids: completed, path } = await withRuns(6);
    const count = async (query: string) => (await readAll(`${path}?limit=2&${query}`)).length;
    expect(await count('status=Completed')).toBe(6);
    expect(await count('status=Failed&status=Cancelled')).toBe(0);
    expect(await count('status=Failed&status=Completed')).toBe(6);
    expect([await count('after=-2d'), await count('after=-2h')]).toEqual([6, 0]);
    expect([await count('after=-999y'), await count('before=-2h')]).toEqual([6, 6]);
    expect(await count('start=2024-03-01T03:00:00Z')).toBe(4);
    expect(await count('start=2024-03-01T03:00:00Z&end=2024-03-01T05:00:00Z')).toBe(2);
    expect(completed).toHaveLength(6);
  });

  test('a cursor of another ordering is refused', async () => {
    const { path } = await withRuns(3);
    const { body } = await api.get(`${path}?limit=1`);
    const other = `${body.next}&ordering=created_at`;
    expect((await api.get(other)).status).toBe(400);
  });

  test('a run of another export is 404', async () => {
    const [id] = await insertRuns(await createExport(), 1);
    const other = await createExport();
    for (const path of ['', '/logs', '/files']) {
      expect((await api.get(`${api.exports}/${other}/runs/${id}${path}`)).status).toBe(404);
    }
    expect((await api.get(`${api.exports}/${other}/runs/x/files`)).status).toBe(404);
    expect((await api.get(`${api.exports}/${other}/runs/x`)).status).toBe(404);
  });

  test('cancel ends a live run, once', async () => {
    const { id, path } = await withRuns(1, 'Starting');
    const cancelled = await api.post(`${path}/${id}/cancel/`);
    expect([cancelled.status, cancelled.body]).toEqual([200, { cancelled: true }]);
    expect((await api.get(`${path}/${id}`)).body.status).toBe('Cancelled');
    expect((await api.post(`${path}/${id}/cancel`)).status).toBe(400);
  });

  test('retry answers 201 with a new run of the same interval, one at a time', async () => {
    const { id, path } = await withRuns(1, 'Failed');
    const retry = await api.post(`${path}/${id}/retry`);
    expect(retry.status).toBe(201);
    expect(retry.body).toMatchObject({
      status: 'Starting',
      data_interval_start: '2024-03-01T01:00:00.000000Z',
    });
    expect(retry.body.id).not.toBe(id);
    expect((await api.get(`${path}/${id}`)).body.status).toBe('Failed');
    const again = await api.post(`${path}/${id}/retry`);
    expect([again.status, again.body.code]).toEqual([409, 'conflict']);
    expect((await api.post(`${path}/${retry.body.id}/retry`)).status).toBe(400);
  });
});

describe('logs', () => {
  const append = (exportId: string, runId: string | null, level: LogLevel, message: string) =>
    appendLogEntries(api.db, [{ teamId: api.teamId, exportId, runId, level, message }]);

  test('of an export are newest first, those of its runs among them', async () => {
    const { exportId, id: runId } = await withRuns(1);
    await append(exportId, null, 'INFO', 'first');
    await append(exportId, runId, 'ERROR', 'second');
    const { status, body } = await api.get(`${api.exports}/${exportId}/logs/`);
    expect([status, body.count]).toEqual([200, 2]);
    expect(body.results).toEqual([
      {
        team_id: api.teamId,
        batch_export_id: exportId,
        run_id: runId,
        timestamp: expect.stringMatching(/\.\d{6}Z$/),
        level: 'ERROR',
        message: 'second',
      },
      expect.objectContaining({ run_id: null, message: 'first' }),
    ]);
    const ofRun = await api.get(`${api.exports}/${exportId}/runs/${runId}/logs`);
    expect(ofRun.body).toMatchObject({ count: 1, results: [{ message: 'second' }] });
  });

  test('level, level_filter, search and times filter; the count stays true', async () => {
    const exportId = await createExport();
    for (const [level, message] of [
      ['DEBUG', 'alpha'],
      ['INFO', 'beta 100%'],
      ['WARNING', 'gamma'],
      ['ERROR', 'ALPHA_2'],
    ] as const) {
      await append(exportId, null, level, message);
    }
    const found = async (query: string) => {
      const { body } = await api.get(`${api.exports}/${exportId}/logs?${query}`);
      expect(body.count).toBe(body.results.length);
      return body.results.map(({ message }) => message);
    };
    expect(await found('level=ERROR')).toEqual(['ALPHA_2']);
    expect(await found('level=DEBUG&level=ERROR')).toEqual(['ALPHA_2', 'alpha']);
    expect(await found('level_filter=WARNING')).toEqual(['gamma']);
    expect(await found('level=WARNING&level=WARNING')).toEqual(['gamma']);
    expect(await found('search=alpha')).toEqual(['ALPHA_2', 'alpha']);
    expect(await found('search=0%25')).toEqual(['beta 100%']);
    expect(await found('search=%25')).toEqual(['beta 100%']);
    expect(await found('search=_')).toEqual(['ALPHA_2']);
    expect(await found('after=-1h')).toHaveLength(4);
    expect(await found('before=-1h')).toEqual([]);
    expect(await found('level=DEBUG&level=INFO&after=-1h&search=a')).toEqual([
      'beta 100%',
      'alpha',
    ]);
  });

  test('offset works, also over several levels', async () => {
    const exportId = await createExport();
    for (let n = 0; n < 12; n += 1) await append(exportId, null, n % 2 ? 'INFO' : 'LOG', `${n}`);
    const page = await api.get(
      `${api.exports}/${exportId}/logs?limit=4&offset=4&level=INFO&level=LOG`,
    );
    expect(page.body.results.map(({ message }) => message)).toEqual(['7', '6', '5', '4']);
    expect(page.body.count).toBe(12);
  });
});
