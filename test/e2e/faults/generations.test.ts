import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { FailpointName } from '../../../src/foundation/failpoints/failpoint.ts';
import {
  createS3Export,
  insertEvents,
  projectPath,
  readRuns,
  retireExports,
  untilEnded,
} from '../../support/exported-events.ts';
import { hourRuns } from '../../support/hour-runs.ts';
import { bucket, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

/** Whatever freezes, dies or comes late: a key that a current manifest names is never written or deleted. */

const rows = 50;
const stem = '20240301T000000Z-20240301T010000Z';
const installation = useStage(() => startInstallation({ workers: 0 }));
beforeAll(async () => {
  await insertEvents(installation.pool, { team: team(), rows });
});
afterEach(async () => {
  await installation.s3.faults.clear();
  await installation.stopWorkers();
  await retireExports(installation);
});

const team = () => installation.tenant.projectIds[0];
const { runAgain, order, change, keysOf, breakAt, wake } = hourRuns(() => installation);

async function touchRows(mark: string) {
  await installation.pool.query(`update events set event = event || $2 where team_id = $1`, [
    team(),
    mark,
  ]);
}

/** The first run of an export, by a worker that has ended then. */
async function deliver(exportId: string) {
  await installation.startWorker();
  await runAgain(exportId, 0);
  await installation.stopWorkers();
}

async function readManifest(exportId: string, folder = '') {
  const key = `${exportId}${folder}/${stem}_manifest.json`;
  return JSON.parse((await installation.s3.body(bucket, key)).toString());
}

describe('a worker that freezes', () => {
  test.each<FailpointName>([
    'before_complete',
    'after_complete',
    'before_manifest',
    'after_manifest',
    'before_record',
    'before_removal',
  ])('at %s of a re-run wakes after gzip, plain and gzip again and harms nothing', async (step) => {
    const exportId = await createS3Export(installation, {
      name: step,
      config: { compression: 'gzip' },
    });
    await deliver(exportId);
    await touchRows('!');
    await change(exportId, { compression: null });
    const sleeper = await breakAt(exportId, step, 'stop');
    await installation.startWorker();
    let count = (await untilEnded(installation, exportId, { count: 2 })).length;
    for (const compression of ['gzip', null, 'gzip']) {
      await change(exportId, { compression });
      expect(await runAgain(exportId, count)).toMatchObject({ status: 'Completed', rows });
      count += 1;
    }
    const before = await readManifest(exportId);
    await wake(sleeper);
    expect(await readManifest(exportId)).toEqual(before);
    expect(await expectInvariants(installation)).toMatchObject({ rows });
  });
});

test('a new template for names is followed, through a death', async () => {
  const exportId = await createS3Export(installation, {
    name: 'named',
    config: { file_name: 'e_{start}_{end}_{generation}' },
  });
  const own = `e_${stem.replace('-', '_')}`;
  await breakAt(exportId, 'after_manifest', 'kill', { knows: true });
  await installation.startWorker();
  await untilEnded(installation, exportId);
  expect(await keysOf(exportId)).toEqual([`${own}.jsonl`, `${own}_manifest.json`].sort());
  expect(await expectInvariants(installation)).toMatchObject({ rows });

  await touchRows('.');
  expect(await runAgain(exportId, 1)).toMatchObject({ status: 'Completed', rows });
  await until(async () => (await keysOf(exportId)).length === 2);
  // The attempt after the death has used a generation up.
  expect(await keysOf(exportId)).toEqual([`${own}_v3.jsonl`, `${own}_manifest.json`].sort());

  await change(exportId, { file_name: '{start}-{end}.{generation}-{part}' });
  expect(await runAgain(exportId, 2)).toMatchObject({ status: 'Completed', rows });
  await until(async () => (await keysOf(exportId)).length === 3);
  const named = [`${stem}.v4.jsonl`, `${stem}_manifest.json`, `${own}_manifest.json`];
  expect(await keysOf(exportId)).toEqual(named.sort());
  expect(await expectInvariants(installation)).toMatchObject({ rows });
});

test('a re-run that ends for good between its files and its manifest leaves the delivered ones whole, and a later run removes its own', async () => {
  const exportId = await createS3Export(installation, {
    name: 'torn',
    config: { max_file_size_mb: 1 },
  });
  await insertEvents(installation.pool, { team: team(), rows: 600, rowBytes: 4_000 });
  await installation.startWorker();
  await runAgain(exportId, 0);
  const delivered = await readManifest(exportId);
  expect(delivered.files.length).toBeGreaterThan(1);
  await touchRows('?');
  await installation.s3.faults.add({
    match: { operation: 'PutObject', key: /_manifest/ },
    times: 10,
    effect: { status: 403, code: 'AccessDenied' },
  });
  const failed = await runAgain(exportId, 1);
  expect(failed).toMatchObject({ status: 'Failed', errorCode: 'destination.access_denied' });
  await installation.s3.faults.clear();
  expect(await readManifest(exportId)).toEqual(delivered);
  for (const { key, bytes } of delivered.files) {
    expect((await installation.s3.body(bucket, key)).length, key).toBe(bytes);
  }
  expect((await keysOf(exportId)).some((key) => key.includes('.v2'))).toBe(true);

  expect(await runAgain(exportId, 2)).toMatchObject({ status: 'Completed' });
  await expectInvariants(installation);
  const { files, generation } = await readManifest(exportId);
  expect(generation).toBeGreaterThan(2);
  expect((await keysOf(exportId)).sort()).toEqual(
    [...files.map(({ key }: { key: string }) => key.split('/')[1]), `${stem}_manifest.json`].sort(),
  );
  await installation.sql`delete from events where team_id = ${team()}
      and properties->>'n' >= '0' and length(properties->>'pad') > 2000`;
});

test('a re-run with the same rows commits after a move there and back, if the first move was not finished', async () => {
  const exportId = await createS3Export(installation, {
    name: 'back',
    config: { prefix: '{batch_export_id}/old' },
  });
  await deliver(exportId);
  await change(exportId, { prefix: '{batch_export_id}/new' });
  const sleeper = await breakAt(exportId, 'before_removal', 'stop');
  await change(exportId, { prefix: '{batch_export_id}/old' });
  await installation.startWorker();
  expect(await runAgain(exportId, 2)).toMatchObject({ status: 'Completed', rows });
  await wake(sleeper);
  expect(await readManifest(exportId, '/old')).toMatchObject({ total_rows: rows });
  await until(async () => (await readManifest(exportId, '/new')).files.length === 0);
  expect(await expectInvariants(installation)).toMatchObject({ rows });
});

test.each<FailpointName>(['after_complete', 'before_manifest'])(
  'an export that moves to another prefix is not torn by a first commit that sleeps at %s',
  async (step) => {
    const exportId = await createS3Export(installation, {
      name: 'moves',
      config: { prefix: '{batch_export_id}/old' },
    });
    const sleeper = await breakAt(exportId, step, 'stop');
    await change(exportId, { prefix: '{batch_export_id}/new' });
    await installation.startWorker();
    expect(await untilEnded(installation, exportId)).toMatchObject([{ status: 'Completed', rows }]);
    await wake(sleeper);
    expect(await readManifest(exportId, '/new')).toMatchObject({ total_rows: rows });
    // The sleeper's manifest may come before the tombstone does; it is replaced then.
    await until(async () => (await readManifest(exportId, '/old')).files.length === 0);
    expect(await readManifest(exportId, '/old')).toMatchObject({
      moved_to: `${exportId}/new/${stem}_manifest.json`,
    });
    expect(await expectInvariants(installation)).toMatchObject({ rows });
    // Back again: the tombstone is replaced.
    await change(exportId, { prefix: '{batch_export_id}/old' });
    expect(await runAgain(exportId, 1)).toMatchObject({ status: 'Completed', rows });
    expect(await readManifest(exportId, '/old')).toMatchObject({ total_rows: rows });
    await until(async () => (await readManifest(exportId, '/new')).files.length === 0);
    expect(await expectInvariants(installation)).toMatchObject({ rows });
  },
);

describe('an export without a manifest', () => {
  test('replaces its files in place, and turns to manifests and back without a file lost', async () => {
    const exportId = await createS3Export(installation, {
      name: 'bare',
      config: { manifest: false },
    });
    await installation.startWorker();
    await runAgain(exportId, 0);
    expect(await keysOf(exportId)).toEqual([`${stem}.jsonl`]);
    await touchRows('.');
    expect(await runAgain(exportId, 1)).toMatchObject({ status: 'Completed', rows });
    expect(await keysOf(exportId)).toEqual([`${stem}.jsonl`]);
    await change(exportId, { manifest: true });
    expect(await runAgain(exportId, 2)).toMatchObject({ status: 'Completed', rows });
    expect(await expectInvariants(installation)).toMatchObject({ rows });
    const { files } = await readManifest(exportId);
    expect(files).toHaveLength(1);
    await change(exportId, { manifest: false });
    expect(await runAgain(exportId, 3)).toMatchObject({ status: 'Completed', rows });
    await until(async () => (await readManifest(exportId)).moved_to === null);
    expect(await expectInvariants(installation)).toMatchObject({ rows });
  });

  test('whose worker dies before it removes what was replaced keeps no row twice', async () => {
    const exportId = await createS3Export(installation, {
      name: 'bare',
      config: { manifest: false },
    });
    await deliver(exportId);
    await change(exportId, { compression: 'gzip' });
    await breakAt(exportId, 'before_removal', 'kill');
    expect((await untilEnded(installation, exportId, { count: 2 })).at(-1)).toMatchObject({
      status: 'Completed',
    });
    await installation.startWorker();
    await until(async () => (await keysOf(exportId)).length === 1, {
      message: () => 'only the current file is left',
    });
    expect(await keysOf(exportId)).toEqual([`${stem}.jsonl.gz`]);
  });

  test('that had a manifest for one run which died leaves neither it nor its files', async () => {
    const exportId = await createS3Export(installation, {
      name: 'there and back',
      config: { manifest: false },
    });
    await deliver(exportId);
    await change(exportId, { manifest: true });
    await touchRows('d');
    await breakAt(exportId, 'after_manifest', 'kill');
    await change(exportId, { manifest: false });
    await installation.startWorker();
    expect((await untilEnded(installation, exportId, { count: 2 })).at(-1)).toMatchObject({
      status: 'Completed',
    });
    await until(
      async () => (await keysOf(exportId)).filter((key) => !/_manifest/.test(key)).length === 1,
      { message: () => 'one data file is left' },
    );
    const manifest = await readManifest(exportId);
    expect(manifest.files).toEqual([]);
    expect(manifest.moved_to).toBe(null);
  });

  test('that moves to another prefix moves files whose bytes are the same', async () => {
    const exportId = await createS3Export(installation, {
      name: 'prefix',
      config: { manifest: false, prefix: '{batch_export_id}/old' },
    });
    await installation.startWorker();
    await runAgain(exportId, 0);
    await change(exportId, { prefix: '{batch_export_id}/new' });
    expect(await runAgain(exportId, 1)).toMatchObject({ status: 'Completed' });
    await until(async () => (await keysOf(exportId)).length === 1);
    expect(await keysOf(exportId)).toEqual([`new/${stem}.jsonl`]);
  });
});

test('a run that is cancelled after a commit of it has died leaves a true manifest, which is replaced by the next run', async () => {
  const exportId = await createS3Export(installation, { name: 'cancelled' });
  await breakAt(exportId, 'after_manifest', 'kill');
  const second = await installation.startWorker({ FAILPOINTS: 'claim=stop@1' });
  await until(() => second.output().includes('=stop'), {
    message: () => `the run is claimed again:\n${second.output().slice(-1_000)}`,
  });
  const [run] = await readRuns(installation, exportId);
  const path = `${projectPath(installation)}/batch_exports/${exportId}/runs/${run?.id}/cancel/`;
  const answer = await installation.client.post(path);
  expect(answer.status, answer.text).toBe(200);
  await wake(second);
  expect((await readRuns(installation, exportId)).at(-1)).toMatchObject({ status: 'Cancelled' });
  await installation.startWorker();
  const next = await runAgain(exportId, 1);
  expect(next).toMatchObject({ status: 'Completed' });
  expect(await readManifest(exportId)).toMatchObject({ run_id: next?.id });
  expect(await expectInvariants(installation)).toMatchObject({ rows });
});

test('an export that is deleted while a run commits, and whose worker dies, is not exported again: its run records the manifest that is current, or ends', async () => {
  const ends = { after_manifest: 'Completed', before_manifest: 'Cancelled' } as const;
  const ids: string[] = [];
  for (const step of ['after_manifest', 'before_manifest'] as const) {
    const exportId = await createS3Export(installation, { name: step });
    ids.push(exportId);
    const { pool, sql, client } = installation;
    const worker = await installation.startWorker({ FAILPOINTS: `${step}=stop@1` });
    await order(exportId);
    await until(() => worker.output().includes('=stop'));
    const answer = await client.delete(`${projectPath(installation)}/batch_exports/${exportId}/`);
    expect(answer.status, answer.text).toBe(204);
    worker.kill('SIGKILL');
    await worker.waitForExit();
    const left = await keysOf(exportId);
    expect(left).toContain(`${stem}.jsonl`);
    await pool.query('update runs set lease_expires_at = now() where lease_holder is not null');
    await installation.startWorker();
    const statuses = async () => {
      const { rows } = await sql<{ status: string }>`select status from runs
          where export_id = ${exportId}`;
      return rows.map(({ status }) => status);
    };
    await until(async () => !(await statuses()).includes('Running'));
    expect(await statuses()).toEqual([ends[step]]);
    expect(await keysOf(exportId)).toEqual(left);
    await installation.stopWorkers();
  }
  const { rows } = await installation.sql`select export_id as id from receipts
      where export_id = any (${ids}::uuid[])`;
  expect(rows).toEqual([{ id: ids[0] }]);
});
