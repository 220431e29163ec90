import { createHmac } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Compression } from '../../src/encoders/encoder.ts';
import {
  backfill,
  countParts,
  createS3Export,
  hour,
  projectPath,
  readRuns,
  retireExports,
  untilEnded,
} from '../support/exported-events.ts';
import { bucket, type Installation, startInstallation } from '../support/installation.ts';
import { expectInvariants, findBreaches } from '../support/invariants.ts';
import { unpack } from '../support/unpack.ts';
import { until } from '../support/until.ts';

const salt = 'a salt that stays';

let installation: Installation;
beforeAll(async () => {
  installation = await startInstallation({ workers: 1 });
});
afterAll(() => installation?.close());
afterEach(async () => {
  await retireExports(installation);
  await installation.pool.query('delete from events');
  const path = `${projectPath(installation)}/pipeline_transformation_configs/`;
  const { body } = await installation.client.get(path);
  for (const { id } of body.results) await installation.client.delete(`${path}${id}/`);
});

/** Every tenth row has a price that is no number. */
async function insertPurchases(rows: number): Promise<void> {
  await installation.pool.query(
    `insert into events (uuid, team_id, event, distinct_id, properties, timestamp, created_at, inserted_at)
     select gen_random_uuid(), $1, (array['$pageview', 'purchase', 'signup'])[1 + n % 3], 'user ' || n % 97,
            jsonb_build_object('n', n, 'email', 'user' || n % 97 || '@example.com', '$current_url', 'https://example.com/' || n,
              'price', case when n % 10 = 0 then 'free' else (n / 100.0)::text end, 'big', 9007199254740993 + n), at, at, at
       from generate_series(0, $2::int - 1) n,
            lateral (select $3::timestamptz + ($4::timestamptz - $3::timestamptz) * (n::float8 / $2) as at) t`,
    [installation.tenant.projectIds[0], rows, hour.start, hour.end],
  );
}

async function addStep(
  plugin: number,
  order: number,
  config: Readonly<Record<string, string>>,
): Promise<number> {
  const path = `${projectPath(installation)}/pipeline_transformation_configs/`;
  const made = await installation.client.post(path, { plugin, order, enabled: true, config });
  expect(made.status, made.text).toBe(201);
  return Number(made.body.id);
}

/** Drops page views, hashes emails, drops URLs, makes prices numbers and rejects what is none. */
async function addChain(): Promise<number[]> {
  return [
    await addStep(9, 4, { types: '{"price": "number"}', on_error: 'reject' }),
    await addStep(1, 3, { properties: '$current_url' }),
    await addStep(3, 2, { properties: 'email', salt }),
    await addStep(2, 1, { events: '$pageview', mode: 'drop' }),
  ];
}

interface ExpectedRow {
  readonly uuid: string;
  readonly event: string;
  readonly who: string;
  /** As text: 9007199254740993 is more than a number holds. */
  readonly big: string;
  readonly price: string;
  readonly properties: string;
}

/** What the chain should make of the source's rows, in the order of their arrival; made without its code. */
async function expectedRows(): Promise<{ kept: ExpectedRow[]; rejected: string[] }> {
  const { rows } = await installation.pool.query<{
    uuid: string;
    event: string;
    p: Record<string, string>;
  }>(
    `select uuid, event, jsonb_object(array(select k from jsonb_each_text(properties) e (k, v) order by k),
              array(select v from jsonb_each_text(properties) e (k, v) order by k)) as p
       from events order by inserted_at, uuid`,
  );
  const shipped = rows.filter(({ event }) => event !== '$pageview');
  const isRejected = ({ p }: { p: Record<string, string> }) => p.price === 'free';
  const hash = (text = '') => createHmac('sha256', salt).update(text).digest('hex');
  return {
    rejected: shipped.filter(isRejected).map(({ uuid }) => uuid),
    kept: shipped
      .filter((row) => !isRejected(row))
      .map(({ uuid, event, p }) => ({
        uuid,
        event,
        who: hash(p.email),
        big: p.big ?? '',
        price: p.price ?? '',
        properties: `n ${p.n} email ${hash(p.email)} price ${p.price} big ${p.big}`,
      })),
  };
}

const query = `SELECT uuid, event, properties.email AS who, properties.big, properties.price, properties
                 FROM events WHERE properties.n <> '7'`;

async function readObject(exportId: string, suffix: string): Promise<Buffer> {
  const objects = await installation.s3.objects(bucket);
  const found = objects.find(({ key }) => key.startsWith(exportId) && key.endsWith(suffix));
  expect(found, suffix).toBeDefined();
  return installation.s3.body(bucket, found?.key ?? '');
}

/** The rows of a file, each value as text: DuckDB's JSON would round numbers, so lines are read here. */
async function readRows(
  exportId: string,
  format: string,
  extension: string,
): Promise<ExpectedRow[]> {
  const compression: Compression = format === 'Parquet' ? null : 'gzip';
  const bytes = await unpack(compression, await readObject(exportId, extension));
  const rows = format === 'JSONLines' ? readLines(bytes) : await readWithDuckDb(format, bytes);
  return rows.map((row) => {
    const of = (name: string) => new RegExp(`"${name}": ?"?([^",}]*)`).exec(row.properties)?.[1];
    expect(row.properties).not.toContain('current_url');
    const properties = `n ${of('n')} email ${of('email')} price ${of('price')} big ${of('big')}`;
    return { ...row, properties };
  });
}

function readLines(bytes: Buffer): ExpectedRow[] {
  const lines = bytes.toString().trim().split('\n');
  return lines.map((line) => {
    const row = JSON.parse(line) as ExpectedRow;
    return { ...row, properties: line.slice(line.indexOf('"properties":') + 13, -1) };
  });
}

async function readWithDuckDb(format: string, bytes: Buffer): Promise<ExpectedRow[]> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-rows-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, 'rows');
  await writeFile(path, bytes);
  const source =
    format === 'CSV'
      ? `read_csv('${path}', all_varchar = true, header = true)`
      : `read_parquet('${path}')`;
  const connection = await (await DuckDBInstance.create()).connect();
  const reader = await connection.runAndReadAll(
    `select uuid::varchar as uuid, event, who, big, price, properties::varchar as properties from ${source}`,
  );
  return reader.getRowObjectsJson() as unknown as ExpectedRow[];
}

describe('an export with transformations', () => {
  const rows = 30_000;

  test.each([
    ['JSONLines', '.jsonl.gz', 'gzip'],
    ['CSV', '.csv.gz', 'gzip'],
    ['Parquet', '.parquet', 'zstd'],
  ])(
    'writes to %s what its chain makes of each row',
    async (format, extension, compression) => {
      await insertPurchases(rows);
      await addChain();
      const exportId = await createS3Export(installation, {
        transformations: true,
        dsl_query: query,
        config: { file_format: format, compression },
      });
      await backfill(installation, exportId);
      const [run] = await untilEnded(installation, exportId, { timeoutMs: 120_000 });
      expect(run, run?.latestError ?? '').toMatchObject({ status: 'Completed' });
      const { kept, rejected } = await expectedRows();
      const expected = kept.filter(({ properties }) => !properties.startsWith('n 7 '));
      expect(await readRows(exportId, format, extension)).toEqual(expected);
      const lines = (await readObject(exportId, '_rejected.jsonl')).toString().trim().split('\n');
      const reasons = lines.map((line) => JSON.parse(line) as { reason: string; row: object });
      expect(reasons.map(({ row }) => row)).toEqual(rejected.map((uuid) => ({ uuid })));
      expect(new Set(reasons.map(({ reason }) => reason)).size).toBe(1);

      const path = `${projectPath(installation)}/batch_exports/${exportId}/runs/${run?.id}/`;
      const { body } = await installation.client.get(path);
      expect(body).toMatchObject({
        records_total_count: rows - 1,
        records_completed: expected.length,
        records_rejected: rejected.length,
        records_dropped: rows - 1 - expected.length - rejected.length,
      });
      const left = rows - 1 - Number(body.records_dropped);
      expect(body.steps).toMatchObject([
        { in: rows - 1, out: left, dropped: body.records_dropped, errored: 0, error: null },
        { in: left, out: left, dropped: 0 },
        { in: left, out: left },
        { in: left, out: expected.length, dropped: 0, errored: rejected.length },
      ]);
      expect(await expectInvariants(installation)).toMatchObject({ intervals: 1, unproven: [] });
    },
    180_000,
  );

  test('keeps to the chain it began with if its worker is killed and the chain is changed', async () => {
    await insertPurchases(rows);
    const [, , hash] = await addChain();
    const exportId = await createS3Export(installation, {
      transformations: true,
      dsl_query: query,
      config: { file_format: 'JSONLines', max_file_size_mb: 1 },
    });
    await installation.s3.faults.add({
      match: { operation: 'UploadPart' },
      times: Number.POSITIVE_INFINITY,
      effect: { delayMs: 500 },
    });
    await backfill(installation, exportId);
    await until(async () => (await countParts(installation, exportId)) >= 1, {
      timeoutMs: 60_000,
      message: 'a part has arrived',
    });
    const [before] = await readRuns(installation, exportId);
    const victim = installation.processes.find(({ pid }) => pid === before?.holderPid);
    victim?.kill('SIGKILL');
    await victim?.waitForExit();
    await installation.s3.faults.clear();
    const path = `${projectPath(installation)}/pipeline_transformation_configs/${hash}/`;
    const changed = await installation.client.patch(path, { config: { salt: 'another salt' } });
    expect(changed.status, changed.text).toBe(200);
    await installation.startWorker();
    const [run] = await untilEnded(installation, exportId, { timeoutMs: 120_000 });
    const { kept } = await expectedRows();
    expect(run).toMatchObject({ status: 'Completed', rows: kept.length - 1 });
    const files = (await installation.s3.objects(bucket)).filter(
      ({ key }) => key.startsWith(exportId) && key.endsWith('.jsonl') && !key.includes('_rejected'),
    );
    const written: ExpectedRow[] = [];
    for (const { key } of files)
      written.push(...readLines(await installation.s3.body(bucket, key)));
    const identities = (of: readonly ExpectedRow[]) => of.map(({ uuid, who }) => `${uuid} ${who}`);
    const expected = kept.filter(({ properties }) => !properties.startsWith('n 7 '));
    expect(identities(written).sort()).toEqual(identities(expected).sort());
    expect(await expectInvariants(installation)).toMatchObject({ intervals: 1, unproven: [] });
  }, 180_000);

  test('that was written without its chain is a breach, and one whose rows changed since is not provable', async () => {
    await insertPurchases(300);
    const steps = await addChain();
    const exportId = await createS3Export(installation, { transformations: true });
    await backfill(installation, exportId);
    await untilEnded(installation, exportId);
    const { pool } = installation;
    // The files of a build that forgot one step: the recipe names all of them.
    const path = `${projectPath(installation)}/pipeline_transformation_configs/`;
    await installation.client.patch(`${path}${steps[2]}/`, { enabled: false });
    const recipes = `select recipe from receipts where export_id = $1`;
    const { rows: before } = await pool.query(recipes, [exportId]);
    await backfill(installation, exportId, hour, { reprocess: 'all' });
    await untilEnded(installation, exportId, { count: 2 });
    expect((await findBreaches(installation)).breaches).toEqual([]);
    await pool.query('update receipts set recipe = $2 where export_id = $1', [
      exportId,
      before[0]?.recipe,
    ]);
    const { breaches } = await findBreaches(installation);
    expect(breaches).toHaveLength(1);
    expect(breaches[0]).toMatch(/I3.*the files are not what the transformation chain makes/);

    await pool.query(`update events set distinct_id = 'someone else' where properties->>'n' = '5'`);
    const after = await findBreaches(installation);
    expect(after.breaches).toEqual([]);
    expect(after.verified.unproven).toEqual([
      expect.stringMatching(/not provable, because rows of the source have changed since/),
    ]);
  }, 120_000);

  test('shows the errors of a step that a sample job has tried', async () => {
    await insertPurchases(30);
    const steps = await addChain();
    const path = `${projectPath(installation)}/pipeline_transformation_configs/${steps[0]}/`;
    expect((await installation.client.post(`${path}job/`, {})).status).toBe(200);
    await until(async () => (await installation.client.get(path)).body.error !== null, {
      timeoutMs: 30_000,
      message: 'the sample job has recorded its errors',
    });
    const { body } = await installation.client.get(path);
    expect(body.error).toContain('price');
    // Of 20 rows that reach the step, 2 have a price that is no number.
    expect(Number(body.delivery_rate_24h)).toBeCloseTo(0.9, 6);
  }, 60_000);

  test('fails before it writes a byte if a step cannot run', async () => {
    await insertPurchases(30);
    const [, , hash] = await addChain();
    await installation.pool.query(
      `update transformation_versions set config_secrets = '\\x00' where config_id = $1`,
      [hash],
    );
    const exportId = await createS3Export(installation, { transformations: true });
    await backfill(installation, exportId);
    const [run] = await untilEnded(installation, exportId);
    expect(run).toMatchObject({ status: 'Failed', errorCode: 'transformation.invalid' });
    expect(run?.latestError).toContain(`step ${hash}`);
    const keys = (await installation.s3.objects(bucket)).map(({ key }) => key);
    expect(keys.filter((key) => key.includes(exportId))).toEqual([]);
    const path = `${projectPath(installation)}/pipeline_transformation_configs/${hash}/`;
    expect((await installation.client.get(path)).body.error).toContain('secrets');
  }, 60_000);
});
