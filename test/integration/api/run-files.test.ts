import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { allowBriefReceipts } from '../../support/brief-receipts.ts';

let api: ApiUnderTest;
let exports: string;

beforeAll(async () => {
  api = await startApiUnderTest();
  await allowBriefReceipts(api.db);
  exports = `${api.project}/batch_exports`;
});
afterAll(() => api.stop());

const file = (key: string, rows: number, generation = 2) => ({
  key: `events/${key}`,
  generation,
  rows,
  bytes: rows * 10,
  sha256: 'ab'.repeat(32),
  etag: '"tag"',
});

/** An export with two completed runs of one hour; the files are of the second. */
async function createWithFiles(files: readonly object[], rejected: readonly object[] = []) {
  const { id } = (await api.client.post(exports, exportBody())).body;
  const runs = await api.db.query<{ id: string }>(
    `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, generation, committing_generation, finished_at)
     select $1, $2, 'Completed', '2024-03-01T00:00:00Z', '2024-03-01T01:00:00Z', n, n + 1, now() from generate_series(0, 1) n
     returning id`,
    [id, api.tenant.projectIds[0]],
  );
  const [first, second] = runs.map((run) => run.id);
  await api.db.query(
    `insert into receipts (export_id, data_interval_start, data_interval_end, run_id, manifest_key, files, rejected_files, rows, bytes, generation, settled)
     values ($1, '2024-03-01T00:00:00Z', '2024-03-01T01:00:00Z', $2, 'events/x_manifest.json', $3, $4, 0, 0, 2, true)`,
    [id, second, JSON.stringify(files), JSON.stringify(rejected)],
  );
  const pathOf = (run: string | undefined) => `${exports}/${id}/runs/${run}/files`;
  return { id, first, second, pathOf };
}

test('the files of a run have their keys, addresses, sizes and digests; rejected rows come last', async () => {
  const { id, second, pathOf } = await createWithFiles(
    [file('a', 5), file('b', 7)],
    [file('r', 1)],
  );
  const { status, body } = await api.client.get(pathOf(second));
  expect(status).toBe(200);
  const { bucket_name: bucket } = (await api.client.get(`${exports}/${id}`)).body.destination
    .config;
  expect(body).toEqual({
    count: 3,
    next: null,
    previous: null,
    current_run: second,
    manifest: {
      key: 'events/x_manifest.json',
      uri: `s3://${bucket}/events/x_manifest.json`,
      generation: 2,
    },
    results: [
      ['a', 5, false],
      ['b', 7, false],
      ['r', 1, true],
    ].map(([key, rows, rejected]) => ({
      key: `events/${key}`,
      uri: `s3://${bucket}/events/${key}`,
      generation: 2,
      rows,
      bytes: Number(rows) * 10,
      sha256: 'ab'.repeat(32),
      rejected,
    })),
  });
  expect(JSON.stringify(body)).not.toContain('secret');
});

test('a run whose files a later one replaced names that run, and no files', async () => {
  const { first, second, pathOf } = await createWithFiles([file('a', 5)]);
  const { body } = await api.client.get(pathOf(first));
  expect(body).toMatchObject({ count: 0, results: [], manifest: null, current_run: second });
});

test('a run keeps those of its files that a run of late rows left as they were', async () => {
  const { first, second, pathOf } = await createWithFiles([file('a', 5, 1), file('b', 1)]);
  const keysOf = (answer: { body: Record<string, unknown> }) =>
    (answer.body.results as { key: string; generation: number }[]).map(
      ({ key, generation }) => `${key} ${generation}`,
    );
  const earlier = await api.client.get(pathOf(first));
  expect(keysOf(earlier)).toEqual(['events/a 1']);
  expect(earlier.body).toMatchObject({ count: 1, current_run: second });
  expect(keysOf(await api.client.get(pathOf(second)))).toEqual(['events/a 1', 'events/b 2']);
});

test('many files come in pages', async () => {
  const files = Array.from({ length: 5 }, (_, n) => file(String(n), n));
  const { second, pathOf } = await createWithFiles(files);
  const page = await api.client.get(`${pathOf(second)}?limit=2&offset=2`);
  expect(page.body.results.map(({ key }) => key)).toEqual(['events/2', 'events/3']);
  const { next, previous, count } = page.body;
  expect(count).toBe(5);
  const last = await api.client.get(String(next));
  expect(last.body.results.map(({ key }) => key)).toEqual(['events/4']);
  expect((await api.client.get(String(previous))).body.results).toHaveLength(2);
});

test('files that an export has left are shown at the place where they are', async () => {
  const { id, second, pathOf } = await createWithFiles([file('a', 5)]);
  const moved = { destination: { config: { bucket_name: 'another-bucket' } } };
  const before = (await api.client.get(pathOf(second))).body.results[0]?.uri;
  expect((await api.client.patch(`${exports}/${id}`, moved)).status).toBe(200);
  expect((await api.client.get(pathOf(second))).body.results[0]?.uri).toBe(before);
});

test('a run of another export is 404', async () => {
  const { first } = await createWithFiles([]);
  const other = await createWithFiles([]);
  expect((await api.client.get(other.pathOf(first))).status).toBe(404);
  expect((await api.client.get(other.pathOf('x'))).status).toBe(404);
});
