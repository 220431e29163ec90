import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { useApi } from '../../support/api-under-test.ts';
import { allowBriefReceipts } from '../../support/brief-receipts.ts';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import type { Context } from '../../../src/service/use-cases/context.ts';
import { recordFault, releaseRun } from '../../../src/service/use-cases/runs/finish-run.ts';
import {
  claim,
  complete,
  createExportOfThePast,
  decide,
  firstRun,
} from '../../support/run-side.ts';
import { testApiOptions } from '../../support/test-api-options.ts';
import { toTimestamp } from '../../../src/foundation/domain/time.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';

const api = useApi();
beforeAll(() => allowBriefReceipts(api.db));

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
  const { id } = await api.create();
  const runs = await api.sql<{ id: string }>`
    insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, generation,
      committing_generation, finished_at)
     select ${id}, ${api.teamId}, 'Completed', '2024-03-01T00:00:00Z', '2024-03-01T01:00:00Z', n, n + 1, now()
       from generate_series(0, 1) n
     returning id`;
  const [first, second] = runs.map((run) => run.id);
  await api.sql`
    insert into receipts (export_id, data_interval_start, data_interval_end, run_id, manifest_key, files,
      rejected_files, rows, bytes, generation, settled)
     values (${id}, '2024-03-01T00:00:00Z', '2024-03-01T01:00:00Z', ${second}, 'events/x_manifest.json',
       ${JSON.stringify(files)}, ${JSON.stringify(rejected)}, 0, 0, 2, true)`;
  const pathOf = (run: string | undefined) => `${api.exports}/${id}/runs/${run}/files`;
  return { id, first, second, pathOf };
}

test('the files of a run have their keys, addresses, sizes and digests; rejected rows come last', async () => {
  const { id, second, pathOf } = await createWithFiles(
    [file('a', 5), file('b', 7)],
    [file('r', 1)],
  );
  const { status, body } = await api.get(pathOf(second));
  expect(status).toBe(200);
  const { bucket_name: bucket } = (await api.get(`${api.exports}/${id}`)).body.destination.config;
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
  const { body } = await api.get(pathOf(first));
  expect(body).toMatchObject({ count: 0, results: [], manifest: null, current_run: second });
});

test('a run keeps those of its files that a run of late rows left as they were', async () => {
  const { first, second, pathOf } = await createWithFiles([file('a', 5, 1), file('b', 1)]);
  const keysOf = (answer: { body: Record<string, unknown> }) =>
    (answer.body.results as { key: string; generation: number }[]).map(
      ({ key, generation }) => `${key} ${generation}`,
    );
  const earlier = await api.get(pathOf(first));
  expect(keysOf(earlier)).toEqual(['events/a 1']);
  expect(earlier.body).toMatchObject({ count: 1, current_run: second });
  expect(keysOf(await api.get(pathOf(second)))).toEqual(['events/a 1', 'events/b 2']);
});

test('many files come in pages', async () => {
  const files = Array.from({ length: 5 }, (_, n) => file(String(n), n));
  const { second, pathOf } = await createWithFiles(files);
  const page = await api.get(`${pathOf(second)}?limit=2&offset=2`);
  expect(page.body.results.map(({ key }) => key)).toEqual(['events/2', 'events/3']);
  const { next, previous, count } = page.body;
  expect(count).toBe(5);
  expect((await api.get(String(next))).body.results.map(({ key }) => key)).toEqual(['events/4']);
  expect((await api.get(String(previous))).body.results).toHaveLength(2);
});

test('files that an export has left are shown at the place where they are', async () => {
  const { id, second, pathOf } = await createWithFiles([file('a', 5)]);
  const moved = { destination: { config: { bucket_name: 'another-bucket' } } };
  const before = (await api.get(pathOf(second))).body.results[0]?.uri;
  expect((await api.patch(`${api.exports}/${id}`, moved)).status).toBe(200);
  expect((await api.get(pathOf(second))).body.results[0]?.uri).toBe(before);
});

describe('the attempts of a run', () => {
  let context: Context;

  beforeAll(async () => {
    ({ context } = testApiOptions(api.db, api.databaseUrl));
  });

  /** An export with one run that is due, and how the API shows that run. */
  async function createDueRun() {
    const [teamId] = api.tenant.projectIds;
    const { id } = await createExportOfThePast({ db: api.db, teamId });
    await decide(context);
    const run = await firstRun(api.db, id);
    await makeDue(run.id);
    const read = async () => {
      const { body } = await api.get(`${api.exports}/${id}/runs/${run.id}`);
      const { status, attempt, max_attempts, next_attempt_at } = body;
      return { status, attempt, max_attempts, next_attempt_at };
    };
    return { runId: run.id, path: `${api.exports}/${id}`, read };
  }

  /** Lets a run that waits be due now. */
  const makeDue = (runId: string) =>
    api.sql`update outbox set available_at = now() where run_id = ${runId}`;

  test('a run says which attempt comes next, when, and how many there can be', async () => {
    const { runId, path, read } = await createDueRun();
    const due = await read();
    expect(due).toMatchObject({ status: 'Starting', attempt: 0, max_attempts: 10 });
    expect(Date.parse(String(due.next_attempt_at))).toBeLessThanOrEqual(Date.now());

    const first = await claim(api, runId);
    const underWay = { status: 'Running', attempt: 1, max_attempts: 10, next_attempt_at: null };
    expect(await read()).toEqual(underWay);

    await recordFault(context, first, new SluiceError('destination.unavailable'), 0.9);
    const waits = await read();
    expect(waits).toMatchObject({ status: 'Running', attempt: 1, max_attempts: 10 });
    const [row] = await api.sql<{ at: string }>`
      select available_at as at from outbox where run_id = ${runId}`;
    expect(waits.next_attempt_at).toBe(row?.at);
    const { results } = (await api.get(`${path}/runs`)).body;
    expect(results[0]?.next_attempt_at).toBe(row?.at);
    const shown = (await api.get(path)).body.latest_runs[0];
    expect(shown).toMatchObject({ max_attempts: 10, next_attempt_at: row?.at });

    await makeDue(runId);
    await complete(context, await claim(api, runId));
    const done = { status: 'Completed', attempt: 2, max_attempts: null, next_attempt_at: null };
    expect(await read()).toEqual(done);
  });

  test('an attempt that a shutdown ended does not count', async () => {
    const { runId, read } = await createDueRun();
    await releaseRun(context, await claim(api, runId));
    expect(await read()).toMatchObject({ attempt: 1, max_attempts: 11 });
    const second = await claim(api, runId);
    expect(await read()).toMatchObject({ attempt: 2, max_attempts: 11, next_attempt_at: null });
    await recordFault(context, second, new SluiceError('destination.unavailable'), 0);
    expect(await read()).toMatchObject({ attempt: 2, max_attempts: 11 });
    for (let attempt = 3; attempt <= 11; attempt++) {
      await makeDue(runId);
      const run = await claim(api, runId);
      expect(await read()).toMatchObject({ attempt, max_attempts: 11, status: 'Running' });
      await recordFault(context, run, new SluiceError('destination.unavailable'), 0);
    }
    expect(await read()).toMatchObject({ status: 'FailedRetryable', attempt: 11 });
  });
});

describe('a run that is asked for now', () => {
  const hourMs = 3_600_000;
  let now: number;
  let path: string;

  const ago = (hours: number) => toTimestamp(now - hours * hourMs);
  const runNow = async () => (await api.post(`${path}/run_now`)).body;
  const create = async (changes: Readonly<Record<string, unknown>>) => {
    const body = await api.create(changes);
    path = `${api.exports}/${body.id}`;
  };
  beforeEach(async () => {
    // The last complete hour ends here.
    now = Math.floor((await readNow(api.db)) / hourMs) * hourMs;
  });

  test('exports the whole intervals from start_at on, and says the second time that a backfill runs', async () => {
    await create({ start_at: ago(3) });
    const started = await runNow();
    expect(started).toMatchObject({
      total_runs: 3,
      start_at: ago(3),
      end_at: ago(0),
      reason: null,
    });
    const { body } = await api.get(`${path}/backfills/${started.backfill_id}`);
    expect(body).toMatchObject({ reprocess: 'failed', status: 'Running', total_runs: 3 });
    const again = await runNow();
    expect(again).toMatchObject({ backfill_id: null, total_runs: 0 });
    expect(again.reason).toContain(`Backfill ${started.backfill_id} of an overlapping range`);
  });

  test('says of a new export when its present interval ends, and stores no backfill', async () => {
    await create({});
    const next = ago(-1).replace('.000000', '');
    expect((await runNow()).reason).toBe(
      `No interval has ended yet. The present interval ends at ${next}, and is exported then.`,
    );
    expect((await api.get(`${path}/backfills`)).body.results).toEqual([]);
  });

  test('says that all is exported or has a run', async () => {
    await create({ start_at: ago(2) });
    await api.sql`insert into runs (export_id, team_id, status, data_interval_start, data_interval_end)
     select id, team_id, 'Starting', ${ago(2)}::timestamptz + n * interval '1 hour',
       ${ago(2)}::timestamptz + (n + 1) * interval '1 hour'
       from batch_exports, generate_series(0, 1) n where id = ${path.split('/').at(-1)}`;
    const { reason, backfill_id: id } = await runNow();
    expect(id).toBeNull();
    expect(reason).toContain(
      `Every interval up to ${ago(0).replace('.000000', '')} is exported or has a run.`,
    );
  });

  test('says that it is paused, that it has not begun, and that it has ended', async () => {
    await create({ start_at: ago(3), paused: true });
    expect((await runNow()).reason).toContain('The export is paused.');
    await create({ start_at: ago(-5) });
    expect((await runNow()).reason).toContain('its start_at. Nothing is due before.');
    await create({ start_at: ago(3), end_at: ago(1) });
    expect(await runNow()).toMatchObject({ total_runs: 2, end_at: ago(1) });
  });

  test('a snapshot has only its newest interval, once, and it supersedes those before', async () => {
    await create({ mode: 'snapshot' });
    const addRun = (status: string, from: number) =>
      api.sql`insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at)
       select id, team_id, ${status}, ${ago(from)}::timestamptz, ${ago(from)}::timestamptz + interval '1 hour',
              case when ${status} = 'Failed' then now() end
         from batch_exports where id = ${path.split('/').at(-1)}`;
    await addRun('Failed', 4);
    await addRun('Starting', 3);
    expect((await runNow()).reason).toContain('A run is in progress.');
    await api.sql`
      update runs set status = 'Cancelled', finished_at = now() where status = 'Starting'`;
    expect(await runNow()).toMatchObject({ total_runs: 1, start_at: ago(1), end_at: ago(0) });
    expect((await runNow()).reason).toContain('of an overlapping range is running');
    const { body } = await api.get(`${path}/coverage`);
    expect(JSON.stringify(body.ranges)).toContain('superseded');
  });
});
