import { createHmac } from 'node:crypto';
import { afterEach, expect, test } from 'vitest';
import { untilWritersEnded } from '../support/database.ts';
import {
  backfill,
  createS3Export,
  hour,
  projectPath,
  retireExports,
  untilEnded,
} from '../support/exported-events.ts';
import { bucket, startInstallation } from '../support/installation.ts';
import { expectInvariants, findBreaches } from '../support/invariants.ts';
import { atNight, isNightly } from '../support/nightly.ts';
import {
  addStep,
  clearChain,
  type ExportedRow,
  formats,
  insertPurchases,
  readLines,
  readRejected,
  readRows,
  readSource,
  type SourceRow,
} from '../support/transforms/purchases.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';

const salt = 'a salt that stays';
const installation = useStage(() => startInstallation({ workers: 1 }));
afterEach(async () => {
  await retireExports(installation);
  await clearChain(installation);
});

/** Drops page views, hashes emails, drops URLs, makes prices numbers and rejects what is none. */
async function addChain(): Promise<number[]> {
  return [
    await addStep(installation, 9, 4, { types: '{"price": "number"}', on_error: 'reject' }),
    await addStep(installation, 1, 3, { properties: '$current_url' }),
    await addStep(installation, 3, 2, { properties: 'email', salt }),
    await addStep(installation, 2, 1, { events: '$pageview', mode: 'drop' }),
  ];
}

/** What the chain should make of the source's rows, in the order of their arrival; made without its code. */
async function expectedRows(): Promise<{ kept: ExportedRow[]; rejected: string[] }> {
  const rows = await readSource(installation);
  const shipped = rows.filter(({ event }) => event !== '$pageview');
  const isRejected = ({ p }: SourceRow) => p.price === 'free';
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
        properties: `n ${p.n} email ${hash(p.email)} price ${p.price} big ${p.big} .current_url undefined`,
      })),
  };
}

const query = `SELECT uuid, event, properties.email AS who, properties.big, properties.price, properties
                 FROM events WHERE properties.n <> '7'`;

/** Properties that rows are compared by; `$current_url` is in none. */
const shown = ['n', 'email', 'price', 'big', '.current_url'];

const rows = isNightly ? 100_000 : 3_000;

test.each(formats)(
  'writes to %s what its chain makes of each row',
  async (format, extension, compression) => {
    await insertPurchases(installation, rows);
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
    expect(await readRows(installation, exportId, format, extension, shown)).toEqual(expected);
    const reasons = await readRejected(installation, exportId);
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
    const steps = body.steps as unknown as readonly { readonly time_ms: number }[];
    expect(steps.filter((step) => step.time_ms > 0)).toHaveLength(4);
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

atNight(
  'keeps to the chain it began with if its worker is killed and the chain is changed',
  async () => {
    await insertPurchases(installation, rows);
    const [, , hash] = await addChain();
    const exportId = await createS3Export(installation, {
      transformations: true,
      dsl_query: query,
      config: { file_format: 'JSONLines', max_file_size_mb: 1 },
    });
    await installation.stopWorkers();
    const victim = await installation.startWorker({ FAILPOINTS: 'before_complete=kill@1' });
    await backfill(installation, exportId);
    await victim.waitForExit();
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
    const written: ExportedRow[] = [];
    for (const { key } of files)
      written.push(...readLines(await installation.s3.body(bucket, key)));
    const identities = (of: readonly ExportedRow[]) => of.map(({ uuid, who }) => `${uuid} ${who}`);
    const expected = kept.filter(({ properties }) => !properties.startsWith('n 7 '));
    expect(identities(written).sort()).toEqual(identities(expected).sort());
    expect(await expectInvariants(installation)).toMatchObject({ intervals: 1, unproven: [] });
  },
  180_000,
);

test('that was written without its chain is a breach, and one whose rows changed since is not provable', async () => {
  await insertPurchases(installation, 300);
  const steps = await addChain();
  const exportId = await createS3Export(installation, { transformations: true });
  await backfill(installation, exportId);
  await untilEnded(installation, exportId);
  const { pool, sql } = installation;
  // The files of a build that forgot one step: the recipe names all of them.
  const path = `${projectPath(installation)}/pipeline_transformation_configs/`;
  await installation.client.patch(`${path}${steps[2]}/`, { enabled: false });
  const recipes = `select recipe from receipts where export_id = $1`;
  const { rows: before } = await pool.query(recipes, [exportId]);
  // Otherwise the rows do not show that they are older than what the run sees.
  await untilWritersEnded(pool);
  await backfill(installation, exportId, hour, { reprocess: 'all' });
  await untilEnded(installation, exportId, { count: 2 });
  expect((await findBreaches(installation)).breaches).toEqual([]);
  await sql`update receipts set recipe = ${before[0]?.recipe} where export_id = ${exportId}`;
  const { breaches } = await findBreaches(installation);
  expect(breaches).toHaveLength(1);
  expect(breaches[0]).toMatch(/I3.*the files are not what the transformation chain makes/);

  await pool.query(`update events set distinct_id = 'someone else' where properties->>'n' = '5'`);
  const after = await findBreaches(installation);
  expect(after.breaches).toEqual([]);
  expect(after.verified.unproven).toEqual([
    expect.stringMatching(/not provable, because rows of the source have changed since/),
  ]);
});

atNight(
  'shows the errors of a step that a sample job has tried',
  async () => {
    await insertPurchases(installation, 30);
    const steps = await addChain();
    const path = `${projectPath(installation)}/pipeline_transformation_configs/${steps[0]}/`;
    expect((await installation.client.post(`${path}job/`, {})).status).toBe(200);
    await until(async () => (await installation.client.get(path)).body.error !== null, {
      message: 'the sample job has recorded its errors',
    });
    const { body } = await installation.client.get(path);
    expect(body.error).toContain('price');
    // Of 20 rows that reach the step, 2 have a price that is no number.
    expect(Number(body.delivery_rate_24h)).toBeCloseTo(0.9, 6);
  },
  60_000,
);

test('fails and names the step if more of its rows have errors than max_error_share allows', async () => {
  await insertPurchases(installation, 300);
  const [cast] = await addChain();
  const exportId = await createS3Export(installation, { transformations: true });
  const path = `${projectPath(installation)}/pipeline_transformation_configs/${cast}/`;
  const allow = async (share: string) => {
    const config = { types: '{"price": "number"}', on_error: 'reject', max_error_share: share };
    expect((await installation.client.patch(path, { config })).status).toBe(200);
  };
  const { kept, rejected } = await expectedRows();
  const share = rejected.length / (kept.length + rejected.length);
  await allow(String(share / 2));
  await backfill(installation, exportId);
  const [failed] = await untilEnded(installation, exportId);
  expect(failed).toMatchObject({ status: 'Failed', errorCode: 'transformation.too_many_errors' });
  expect(failed?.latestError).toContain(`Step ${cast}`);
  const keys = (await installation.s3.objects(bucket)).map(({ key }) => key);
  expect(keys.filter((key) => key.includes(exportId))).toEqual([]);
  expect((await installation.client.get(path)).body.error).toContain('max_error_share');

  await allow(String(share * 1.5));
  await backfill(installation, exportId, hour, { reprocess: 'all' });
  const runs = await untilEnded(installation, exportId, { count: 2 });
  expect(runs).toContainEqual(expect.objectContaining({ status: 'Completed', rows: kept.length }));
}, 60_000);

atNight(
  'fails before it writes a byte if a step cannot run',
  async () => {
    await insertPurchases(installation, 30);
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
  },
  60_000,
);
