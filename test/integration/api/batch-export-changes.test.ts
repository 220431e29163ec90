import { describe, expect, test } from 'vitest';
import { settingList } from '../../../src/foundation/domain/export-settings.ts';
import { useApi } from '../../support/api-under-test.ts';
import { cliEnv, runCli } from '../../support/cli.ts';
import { s3, s3Defaults } from '../../support/batch-export-bodies.ts';

const api = useApi();

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;

describe('update', () => {
  test('PATCH changes what is sent and keeps the rest', async () => {
    const created = await api.create({ start_at: '2024-03-01T00:00:00Z' });
    const { status, body } = await api.patch(`${api.exports}/${created.id}`, { name: 'renamed' });
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
    const { body: document } = await api.get('/api/openapi.json');
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
    const made = await api.create({ interval: 'day', ...more, [field]: first });
    expect(made[field]).toBe(first);
    const url = `${api.exports}/${made.id}`;
    const { body: changed } = await api.patch(url, { [field]: second });
    expect(changed[field]).toBe(second);
    await api.patch(url, { name: 'renamed' });
    expect((await api.get(url)).body).toMatchObject({ ...more, [field]: second });
    const { body: activity } = await api.get(`${url}/activity`);
    expect(activity.results[1]?.changes).toEqual([{ field, before: first, after: second }]);
    const { body: kept } = await api.patch(url, { [field]: setting.default });
    expect(kept[field]).toBe(setting.default);
    for (const wrong of type === 'integer' ? [minimum - 1, maximum + 1, 'x'] : ['24:00', 9]) {
      expect((await api.patch(url, { [field]: wrong })).body).toMatchObject({ attr: field });
    }
  });

  test('null clears a nullable time and the query', async () => {
    const { id } = await api.create({
      start_at: '2024-03-01',
      dsl_query: 'select event from events',
    });
    const { body } = await api.patch(`${api.exports}/${id}`, { start_at: null, dsl_query: null });
    expect(body).toMatchObject({ start_at: null, dsl_query: null, schema: null });
  });

  test('transformations need a query that selects columns and paths only', async () => {
    const { id } = await api.create({ dsl_query: 'select upper(event) as e from events' });
    expect(await api.patch(`${api.exports}/${id}`, { transformations: true })).toMatchObject({
      status: 400,
      body: { attr: 'dsl_query' },
    });
    const plain = 'select event as e, properties.a.b from events where upper(event) = $$A$$';
    const { body } = await api.patch(`${api.exports}/${id}`, {
      transformations: true,
      dsl_query: plain,
    });
    expect(body).toMatchObject({ transformations: true, dsl_query: plain });
  });

  test('merges the config, and keeps a secret that is not sent', async () => {
    const { id } = await api.create({ destination: s3({ prefix: 'a', compression: 'gzip' }) });
    const { body } = await api.patch(`${api.exports}/${id}`, {
      destination: { type: 'S3', config: { prefix: 'b', compression: null } },
    });
    expect(body.destination.config).toEqual({
      ...s3Defaults,
      bucket_name: 'my-events',
      region: 'us-east-1',
      prefix: 'b',
    });
    // Without the kept pair of keys, one new half would be refused.
    const half = await api.patch(`${api.exports}/${id}`, {
      destination: { config: { aws_secret_access_key: 'another' } },
    });
    expect(half.status).toBe(200);
  });

  test('null clears a secret, and the rules see the outcome', async () => {
    const { id } = await api.create();
    const { status, body } = await api.patch(`${api.exports}/${id}`, {
      destination: { config: { aws_secret_access_key: null } },
    });
    expect([status, body.attr]).toEqual([400, 'destination__config__aws_secret_access_key']);
  });

  test('a new cadence begins at the boundary that closes the open interval', async () => {
    const created = await api.create({ interval: 'hour' });
    const { body } = await api.patch(`${api.exports}/${created.id}`, { interval: 'day' });
    expect(body).toMatchObject({ interval: 'day', offset_hour: 0 });
    expect(body.next_run_at).toBe(created.next_run_at);
  });

  test('PUT requires name, destination and interval, and keeps what is not sent', async () => {
    const created = await api.create({ start_at: '2024-03-01T00:00:00Z' });
    const path = `${api.exports}/${created.id}`;
    const refused = await api.put(path, { name: 'x' });
    expect(refused.body.errors.map(({ attr }) => attr)).toEqual(['destination', 'interval']);
    const { status, body } = await api.put(path, {
      name: 'put',
      interval: 'day',
      destination: { type: 'S3', config: { prefix: 'p' } },
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({ name: 'put', interval: 'day', start_at: created.start_at });
    expect(body.destination.config).toMatchObject({ bucket_name: 'my-events', prefix: 'p' });
  });

  test('paused in PATCH pauses and unpauses as the operations do', async () => {
    const { id } = await api.create();
    const paused = await api.patch(`${api.exports}/${id}`, { paused: true });
    expect(paused.body).toMatchObject({ paused: true, next_run_at: null });
    const again = await api.patch(`${api.exports}/${id}`, { paused: true });
    expect(again.body.last_paused_at).toBe(paused.body.last_paused_at);
    const unpaused = await api.patch(`${api.exports}/${id}`, { paused: false });
    expect(unpaused.body).toMatchObject({
      paused: false,
      last_paused_at: paused.body.last_paused_at,
      next_run_at: expect.stringMatching(instant),
    });
  });

  test('last_paused_at is writable', async () => {
    const { id } = await api.create();
    const { body } = await api.patch(`${api.exports}/${id}`, { last_paused_at: '2024-03-01' });
    expect(body.last_paused_at).toBe('2024-03-01T00:00:00.000000Z');
  });
});

describe('pause and unpause', () => {
  test('pause is idempotent and writes the time of the change only', async () => {
    const { id } = await api.create();
    const first = await api.post(`${api.exports}/${id}/pause/`);
    expect(first.status).toBe(200);
    expect(first.body).toMatchObject({
      paused: true,
      last_paused_at: expect.stringMatching(instant),
    });
    expect((await api.post(`${api.exports}/${id}/pause`, {})).body).toEqual(first.body);
  });

  test('unpause is idempotent and backfills nothing by itself', async () => {
    const { id } = await api.create({ paused: true });
    const first = await api.post(`${api.exports}/${id}/unpause`);
    expect([first.status, first.body.paused]).toEqual([200, false]);
    expect(first.body).not.toHaveProperty('backfill_id');
    expect((await api.post(`${api.exports}/${id}/unpause`)).body).toEqual(first.body);
    expect((await api.get(`${api.exports}/${id}/backfills`)).body.results).toEqual([]);
  });

  test('unpause with backfill exports exactly the intervals missed while paused', async () => {
    const { id } = await api.create({ paused: true });
    // The pause began long ago, and no tick came under another gate.
    await api.sql`update batch_exports set schedule = jsonb_set(schedule, '{gates,0,since}', to_jsonb(
         (extract(epoch from date_trunc('hour', now(), 'UTC') - interval '5 hours') * 1000)::bigint)) where id = ${id}`;
    const { status, body } = await api.post(`${api.exports}/${id}/unpause`, { backfill: true });
    expect(status).toBe(200);
    const backfill = await api.get(`${api.exports}/${id}/backfills/${body.backfill_id}`);
    expect(backfill.body.total_runs).toBe(5);
  });

  test('an unpause says how many intervals it leaves out, and exports exactly those that are asked for', async () => {
    const { id } = await api.create({ paused: true });
    await api.sql`update batch_exports set schedule = jsonb_set(schedule, '{gates,0,since}', to_jsonb(
         (extract(epoch from date_trunc('hour', now(), 'UTC') - interval '3 hours') * 1000)::bigint)) where id = ${id}`;
    // Two requested intervals before the pause have no data; the hour between them was never asked for.
    await api.sql`insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at)
       select e.id, e.team_id, 'Failed', at, at + interval '1 hour', now()
         from batch_exports e, generate_series(5, 7, 2) n,
              lateral (select date_trunc('hour', now(), 'UTC') - n * interval '1 hour' as at) t where e.id = ${id}`;
    const path = `${api.exports}/${id}`;
    const { body: left } = await api.post(`${path}/unpause`, { dry_run: true });
    expect(left).toMatchObject({ dry_run: true, missed_intervals: 3, missing: { count: 2 } });
    expect(left.missed).toHaveLength(1);
    expect((await api.get(path)).body.paused).toBe(true);

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
    expect((await api.get(`${path}/backfills`)).body.results).toEqual([]);

    const [range] = await api.sql<{ start_at: string; end_at: string }>`
      select date_trunc('hour', now(), 'UTC') - interval '7 hours' as start_at, date_trunc('hour', now(), 'UTC') as end_at`;
    const preview = { ...range, reprocess: 'missing', dry_run: true };
    const { intervals } = (await api.post(`${path}/backfill`, preview)).body;
    expect(intervals).toHaveLength(2);
    await api.post(`${path}/pause`);
    const { status, body } = await api.post(`${path}/unpause`, {
      backfill: true,
      retry_missing: true,
    });
    expect([status, body.backfill_total_runs]).toEqual([200, 2]);
    const { results } = (await api.get(`${path}/backfills`)).body;
    expect(results).toMatchObject([
      { reprocess: 'missing', total_runs: expect.any(Number), ...range },
    ]);
  });
});

// What it answers then: access-matrix.test.ts.
test('delete answers 204 without a body, and the list lacks the export', async () => {
  const { id } = await api.create({ start_at: '2024-03-01T00:00:00Z', backfill: true });
  const deleted = await api.delete(`${api.exports}/${id}/`);
  expect([deleted.status, deleted.text]).toEqual([204, '']);
  const { body } = await api.get(`${api.exports}?limit=1000`);
  expect(body.results.map((found) => found.id)).not.toContain(id);
});

describe('settings of files', () => {
  // What a new export is refused for: refused-bodies.ts.
  const create = async (config: object) =>
    String((await api.create({ destination: s3({ file_format: 'Parquet', ...config }) })).id);

  const change = (id: string, config: object) =>
    api.patch(`${api.exports}/${id}`, { destination: { config } });

  const table = { file_format: 'Parquet', table_format: 'iceberg' };

  test.each<[string, object, object, object]>([
    [
      'columns as DECIMAL are cleared with their format',
      { decimal_columns: ['total decimal(38,0)'] },
      { decimal_columns: null, file_format: 'CSV' },
      { decimal_columns: null },
    ],
    [
      'names need no part without a limit of size',
      { max_file_size_mb: 1 },
      { file_name: 'e_{start}_{end}', max_file_size_mb: null },
      { file_name: 'e_{start}_{end}' },
    ],
    [
      'folders by values are others',
      { partition_by: ['event', 'day(inserted_at)'] },
      { partition_by: ['hour(timestamp)'] },
      { partition_by: ['hour(timestamp)'] },
    ],
    [
      'folders by values are cleared',
      { partition_by: ['event', 'day(inserted_at)'] },
      { partition_by: null },
      { partition_by: null },
    ],
    [
      'a CSV gets its header back',
      { file_format: 'CSV', csv_header: false },
      { csv_header: null },
      { csv_header: true },
    ],
    [
      'a table compresses in another way, and keeps its snapshots for longer',
      { ...table, snapshot_retention_days: 3 },
      { compression: 'zstd', snapshot_retention_days: 30 },
      { snapshot_retention_days: 30 },
    ],
  ])('%s', async (_, before, changes, after) => {
    const id = await create(before);
    const { status, body } = await change(id, changes);
    expect(status).toBe(200);
    expect(body.destination.config).toMatchObject(after);
  });

  test.each<[string, object, object]>([
    ['decimal_columns', { decimal_columns: ['total decimal(38,0)'] }, { file_format: 'CSV' }],
    ['file_name', { file_name: 'e_{start}_{end}' }, { max_file_size_mb: 1 }],
    ['partition_by', { partition_by: ['event'] }, { partition_by: ['event', 'EVENT'] }],
    ['csv_header', { file_format: 'CSV', csv_header: false }, { file_format: 'Parquet' }],
    ['csv_arrays', { file_format: 'CSV', csv_arrays: 'postgres' }, { file_format: 'Parquet' }],
  ])(
    'a change after which %s cannot be is refused, and nothing changes',
    async (name, before, changes) => {
      const id = await create(before);
      const { status, body } = await change(id, changes);
      expect([status, body.attr]).toEqual([400, `destination__config__${name}`]);
      const shown = await api.get(`${api.exports}/${id}`);
      expect(shown.body.destination.config).toMatchObject(before);
    },
  );

  test('arrays as PostgreSQL prints them get no transformations', async () => {
    const id = await create({ file_format: 'CSV', csv_arrays: 'postgres' });
    const chained = await api.patch(`${api.exports}/${id}`, { transformations: true });
    expect([chained.status, chained.body.attr]).toEqual([400, 'destination__config__csv_arrays']);
  });

  test('a file setting that an earlier release has stored goes with the next change', async () => {
    const id = await create({});
    await api.sql`
      update batch_exports set destination_config = destination_config || '{"parquet_encodings": "modern"}' where id = ${id}`;
    const { status, body } = await change(id, { prefix: 'elsewhere' });
    expect([status, body.destination.config.prefix]).toEqual([200, 'elsewhere']);
    expect(body.destination.config).not.toHaveProperty('parquet_encodings');
  });

  test('an Iceberg table begins and stays with its export, and does not move', async () => {
    const plain = await create({});
    const id = await create({ ...table, snapshot_retention_days: 3 });
    const fixed = [
      [plain, { table_format: 'iceberg' }, 'table_format'],
      [id, { table_format: null, snapshot_retention_days: null }, 'table_format'],
      [id, { prefix: 'elsewhere' }, 'prefix'],
      [id, { file_name: '{start}_{end}' }, 'file_name'],
      [id, { bucket_name: 'another-bucket' }, 'bucket_name'],
      [id, { decimal_columns: ['total decimal(9,2)'] }, 'decimal_columns'],
    ] as const;
    for (const [of, config, name] of fixed) {
      const { status, body } = await change(of, config);
      expect([status, body.attr]).toEqual([400, `destination__config__${name}`]);
      expect(body.detail).toContain('create an export with another prefix');
    }
  });
});
