import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { armFailpoints, type FailpointName } from '../../../src/foundation/failpoints/failpoint.ts';
import type { IntervalJob } from '../../../src/rows/pipeline/interval-job.ts';
import { codeOf, readAll } from '../../conformance/destination-suite.ts';
import { askClickHouse, hasClickHouse } from '../../support/clickhouse/ask.ts';
import { boundsByIcebird, readByIcebird, snapshotsOf } from '../../support/icebird.ts';
import {
  attempt,
  encodingOf,
  firstJob,
  jobAfter,
  manifestPath,
  openIntervalBench,
  readableKeys,
  readManifest,
  tableBelow,
} from '../../support/interval-bench.ts';
import { firstByDay, isNightly } from '../../support/nightly.ts';
import type { S3Quirks } from '../../support/s3-server/quirks.ts';
import { bucket, credentials, openStore } from '../../support/s3-destination.ts';
import { inTest, useEach, useStage } from '../../support/use-stage.ts';

const rows = 40;
const table = tableBelow(bucket, firstJob().exportId);
const config = { file_format: 'Parquet', compression: 'snappy' };
const store = useEach(openStore);

const bench = useStage(() => openIntervalBench(rows));
beforeEach(() => store.destination.probe(new AbortController().signal));
afterEach(() => armFailpoints(async () => {}));

const tableJob = (changes: Partial<IntervalJob> = {}) =>
  firstJob({ encoding: encodingOf({ ...config, table_format: 'iceberg' }), table, ...changes });

/** The same job, of rows with one of three events. */
const fewer = (job: IntervalJob): Partial<IntervalJob> => ({
  request: { ...job.request, includeEvents: ['event 1'] },
});

/** Each row once, by its key. */
async function expectRows(count: number): Promise<void> {
  const read = await readByIcebird(store.destination, 'p');
  expect(read).toHaveLength(count);
  expect(new Set(read.map(({ uuid }) => uuid)).size).toBe(count);
}

/** What verify says. */
async function faults(): Promise<readonly string[]> {
  return table.verify(store.destination, (await readManifest(store.destination)).files);
}

it('is read by a stranger: each row once, with its values', async () => {
  const job = tableJob({ maxFileBytes: 6_000, encoding: tableEncoding({}) });
  const { result } = await attempt(bench, store.destination, job).exported;
  expect(result.files.length).toBeGreaterThan(1);
  await expectRows(rows);
  const [first] = await readByIcebird(store.destination, 'p');
  expect(first).toMatchObject({ event: 'event 0', elements_chain: '' });
  expect(first?.inserted_at).toEqual(new Date('2024-03-01T00:00:00Z'));
  // The rows are in the order of their arrival, so no two files have the same times.
  const bounds = await boundsByIcebird(store.destination, 'p', 'inserted_at');
  const times = bounds
    .map((pair) => pair.map((bound) => Number(Buffer.from(bound).readBigInt64LE()) / 1_000))
    .toSorted(([one = 0], [other = 0]) => one - other);
  expect(times).toHaveLength(result.files.length);
  const flat = times.flat();
  expect(flat).toEqual(flat.toSorted((one, other) => one - other));
  const start = Date.parse('2024-03-01T00:00:00Z');
  expect([flat[0], flat.at(-1)]).toEqual([start, start + (rows - 1) * 1_000]);
  expect(await faults()).toEqual([]);
});

it.runIf(hasClickHouse && isNightly)(
  'is read by ClickHouse as the guide says, after a re-run too',
  async () => {
    const job = tableJob({ maxFileBytes: 6_000 });
    const first = await attempt(bench, store.destination, job).exported;
    const again = jobAfter(job, first, fewer(job));
    const { result } = await attempt(bench, store.destination, again).exported;
    const guide = readFileSync('docs/consumers.md', 'utf8');
    const [, from = ''] = /`SELECT \* FROM (icebergS3\(.+?\))`/.exec(guide) ?? [];
    const { accessKeyId, secretAccessKey } = credentials;
    const place = `'${store.server.endpoint}/${bucket}/p/', '${accessKeyId}', '${secretAccessKey}'`;
    const [counted] = await askClickHouse(
      `SELECT toString(count()), toString(uniqExact(uuid)), toString(max(inserted_at)) FROM ${from.replace(/'.*'/, place)}`,
    );
    const newest = await bench.database.sql`
      select to_char(max(inserted_at) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') as at from events
        where event = 'event 1'`;
    expect(counted).toEqual([String(result.rows), String(result.rows), newest.rows[0]?.at]);
  },
);

it('gives the rows of before a re-run, by time travel', async () => {
  const job = tableJob();
  const first = await attempt(bench, store.destination, job).exported;
  const again = jobAfter(job, first, fewer(job));
  const { result } = await attempt(bench, store.destination, again).exported;
  await expectRows(result.rows);
  const [before] = await snapshotsOf(store.destination, 'p');
  expect(await readByIcebird(store.destination, 'p', before)).toHaveLength(rows);
  expect(await faults()).toEqual([]);
});

it('commits nothing if the rows are the same', async () => {
  const job = tableJob();
  const first = await attempt(bench, store.destination, job).exported;
  const keys = await readableKeys(store.destination);
  await attempt(bench, store.destination, jobAfter(job, first)).exported;
  expect(await readableKeys(store.destination)).toEqual(keys);
});

it.each(
  firstByDay<FailpointName>(2, [
    'before_table',
    'after_table',
    'after_complete',
    'before_manifest',
  ]),
)('has each row once if a worker dies at %s', async (step) => {
  const job = tableJob();
  const first = await attempt(bench, store.destination, job).exported;
  armFailpoints(async (name) => {
    if (name === step) throw new Error('killed');
  });
  const killed = jobAfter(job, first, fewer(job));
  await expect(attempt(bench, store.destination, killed).exported).rejects.toThrow('killed');
  armFailpoints(async () => {});
  const changes = { attempt: 2, generation: 3, mayBeOvertaken: true };
  const { result } = await attempt(bench, store.destination, { ...killed, ...changes }).exported;
  expect(result.rows).toBeLessThan(rows);
  await expectRows(result.rows);
  expect(await faults()).toEqual([]);
});

it('is refused after a file of a generation that none can follow', async () => {
  await attempt(bench, store.destination, tableJob({ generation: 1e9 })).exported;
  const { files } = await readManifest(store.destination);
  await store.destination.deleteFiles([manifestPath]);
  const refused = attempt(bench, store.destination, tableJob({ generation: 2 }));
  expect(await codeOf(refused.exported)).toBe('destination.table_damaged');
  expect(refused.asked).toEqual([]);
  expect(await readableKeys(store.destination)).toContain(files[0]?.key);
});

it('takes the files out of the table if an interval has no row any more', async () => {
  const job = tableJob();
  const first = await attempt(bench, store.destination, job).exported;
  const none = { request: { ...job.request, includeEvents: ['none'] } };
  await attempt(bench, store.destination, jobAfter(job, first, none)).exported;
  await expect(readByIcebird(store.destination, 'p')).rejects.toThrow('No data manifest');
  expect(await faults()).toEqual([]);
});

it('looks for a manifest even before its first commit', async () => {
  const before = store.server.requests.length;
  await attempt(bench, store.destination, tableJob()).exported;
  expect(store.server.requests[before]).toMatchObject({
    operation: 'GetObject',
    key: manifestPath,
  });
});

it.each(firstByDay<S3Quirks>(1, [{ ifNoneMatch: 'ignore' }, { ifMatch: 'refuse' }]))(
  'refuses a store without conditions: %j',
  async (quirks) => {
    const weak = await inTest(openStore({ quirks }));
    await weak.destination.probe(new AbortController().signal);
    const refused = attempt(bench, weak.destination, tableJob());
    expect(await codeOf(refused.exported)).toBe('destination.invalid_config');
    await expect(refused.exported).rejects.toThrow(/needs a store that supports conditional/);
    expect(refused.asked).toEqual([]);
  },
);

it.each([
  ['ignores', 'ignore', ['destination.invalid_config']],
  // Its file is refused first. The next attempt knows the store better.
  ['refuses', 'refuse', ['destination.conflict', 'destination.invalid_config']],
] as const)(
  'refuses a store that %s conditions though its probe said otherwise',
  async (_, ifNoneMatch, codes) => {
    const liar = await inTest(openStore({ quirks: { ifNoneMatch } }));
    let { traits } = store.destination;
    for (const [index, code] of codes.entries()) {
      const destination = liar.open(traits);
      const job = tableJob({ attempt: index + 1, generation: index + 1 });
      expect(await codeOf(attempt(bench, destination, job).exported)).toBe(code);
      ({ traits } = destination);
    }
    const { destination } = liar;
    expect(await readAll(destination, 'p/metadata/v1.metadata.json')).toBeNull();
  },
);

it('refuses columns of another type before it reads them', async () => {
  const job = tableJob();
  const first = await attempt(bench, store.destination, job).exported;
  const dslQuery = 'SELECT uuid, event AS created_at, inserted_at FROM events';
  const other = jobAfter(job, first, { request: { ...job.request, dslQuery } });
  const refused = attempt(bench, store.destination, other);
  await expect(refused.exported).rejects.toThrow(
    /column created_at is timestamptz .* string in the rows/,
  );
  expect(await codeOf(refused.exported)).toBe('destination.table_conflict');
  await expectRows(rows);
});

it('is verified: what is damaged or missing is found', async () => {
  await attempt(bench, store.destination, tableJob()).exported;
  const keys = await readableKeys(store.destination);
  const damage = async (part: string, what: RegExp) => {
    const key = keys.find((each) => each.includes(part)) ?? '';
    const bytes = (await readAll(store.destination, key)) ?? Buffer.alloc(0);
    const put = (body: Buffer) => replace(key, body);
    await put(bytes.subarray(0, bytes.length - 3));
    expect((await faults()).join()).toMatch(what);
    await store.destination.deleteFiles([key]);
    expect((await faults()).join()).toMatch(what);
    await put(bytes);
    expect(await faults()).toEqual([]);
  };
  await damage('/m_', /m_.*avro is/);
  await damage('/s_', /s_.*avro is/);
  await damage('/v1.', /v1\.metadata\.json is/);
  const wanted = [{ key: 'p/other.parquet', rows: 1, bytes: 1 }];
  expect(await table.verify(store.destination, wanted)).toHaveLength(2);
});

const tableEncoding = (more: Record<string, unknown>) =>
  encodingOf({ ...config, table_format: 'iceberg', ...more });

async function replace(key: string, body: Buffer): Promise<void> {
  const etag = (await store.destination.statFile(key))?.etag ?? null;
  await store.destination.commitManifest(key, body, etag);
}
