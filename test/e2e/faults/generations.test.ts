import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { FailpointName } from '../../../src/foundation/failpoints/failpoint.ts';
import {
  createS3Export,
  insertEvents,
  retireExports,
  untilEnded,
} from '../../support/exported-events.ts';
import { hourRuns } from '../../support/hour-runs.ts';
import { bucket, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { casesOf } from '../../support/nightly.ts';
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
const { runAgain, change, keysOf, breakAt, wake } = hourRuns(() => installation);

async function readManifest(exportId: string, folder = '') {
  const key = `${exportId}${folder}/${stem}_manifest.json`;
  return JSON.parse((await installation.s3.body(bucket, key)).toString());
}

describe('a worker that freezes', () => {
  const steps = casesOf<FailpointName>(
    ['before_manifest'],
    ['before_complete', 'after_complete', 'after_manifest', 'before_removal'],
  );
  test.each(steps)(
    'at %s of a re-run wakes after gzip, plain and gzip again and harms nothing',
    async (step) => {
      const exportId = await createS3Export(installation, {
        name: step,
        config: { compression: 'gzip' },
      });
      const first = await installation.startWorker();
      await runAgain(exportId, 0);
      await installation.pool.query(`update events set event = event || '!' where team_id = $1`, [
        team(),
      ]);
      await change(exportId, { compression: null });
      first.kill('SIGTERM');
      await first.waitForExit();
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
    },
  );
});

test('a small file that a frozen worker puts after its key was cleaned up is removed once more', async () => {
  const exportId = await createS3Export(installation, { name: 'late put' });
  const sleeper = await breakAt(exportId, 'before_complete', 'stop');
  await installation.startWorker();
  expect(await untilEnded(installation, exportId)).toMatchObject([
    { status: 'Completed', attempt: 2 },
  ]);
  const named = [`${stem}.v2.jsonl`, `${stem}_manifest.json`];
  const { pool } = installation;
  const deleted = () =>
    pool.query(`select from leftover_files where export_id = $1 and deleted_at is not null`, [
      exportId,
    ]);
  await until(async () => (await deleted()).rowCount === 1);
  expect(await keysOf(exportId)).toEqual(named);
  await wake(sleeper);
  expect(await keysOf(exportId)).toEqual([`${stem}.jsonl`, ...named]);
  await expectInvariants(installation);
  await pool.query(
    `update leftover_files set deleted_at = deleted_at - interval '61 minutes', tried_at = null where export_id = $1`,
    [exportId],
  );
  await until(async () => (await keysOf(exportId)).length === named.length, {
    timeoutMs: 60_000,
    message: 'the sweep has removed the late file',
  });
  expect(await keysOf(exportId)).toEqual(named);
  expect(await expectInvariants(installation)).toMatchObject({ rows });
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

  await installation.pool.query(`update events set event = event || '.' where team_id = $1`, [
    team(),
  ]);
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

describe('a re-run that ends for good', () => {
  test('between its files and its manifest leaves the delivered ones whole, and a later run removes its own', async () => {
    const exportId = await createS3Export(installation, {
      name: 'torn',
      config: { max_file_size_mb: 1 },
    });
    await insertEvents(installation.pool, { team: team(), rows: 600, rowBytes: 4_000 });
    await installation.startWorker();
    await runAgain(exportId, 0);
    const delivered = await readManifest(exportId);
    expect(delivered.files.length).toBeGreaterThan(1);
    await installation.pool.query(`update events set event = event || '?' where team_id = $1`, [
      team(),
    ]);
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
      [
        ...files.map(({ key }: { key: string }) => key.split('/')[1]),
        `${stem}_manifest.json`,
      ].sort(),
    );
    await installation.pool.query(
      `delete from events where team_id = $1 and properties->>'n' >= '0' and length(properties->>'pad') > 2000`,
      [team()],
    );
  });
});

describe('a re-run with the same rows', () => {
  test('commits all the same beside a sleeper, whose manifest would come later', async () => {
    const exportId = await createS3Export(installation, { name: 'beside' });
    const first = await installation.startWorker();
    await runAgain(exportId, 0);
    first.kill('SIGTERM');
    await first.waitForExit();
    const { pool } = installation;
    await pool.query(`update events set event = event || '~' where team_id = $1`, [team()]);
    const sleeper = await breakAt(exportId, 'before_manifest', 'stop');
    await pool.query(`update events set event = rtrim(event, '~') where team_id = $1`, [team()]);
    await installation.startWorker();
    expect((await untilEnded(installation, exportId, { count: 2 })).at(-1)).toMatchObject({
      status: 'Completed',
      rows,
    });
    const committed = await readManifest(exportId);
    expect(committed).toMatchObject({ total_rows: rows });
    await wake(sleeper);
    expect(await readManifest(exportId)).toEqual(committed);
    expect(await expectInvariants(installation)).toMatchObject({ rows });
  });

  test('commits after a move there and back, if the first move was not finished', async () => {
    const exportId = await createS3Export(installation, {
      name: 'back',
      config: { prefix: '{batch_export_id}/old' },
    });
    const first = await installation.startWorker();
    await runAgain(exportId, 0);
    first.kill('SIGTERM');
    await first.waitForExit();
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
});

describe('an export that moves to another prefix', () => {
  test.each(casesOf<FailpointName>(['after_complete'], ['before_manifest']))(
    'is not torn by a first commit that sleeps at %s',
    async (step) => {
      const exportId = await createS3Export(installation, {
        name: 'moves',
        config: { prefix: '{batch_export_id}/old' },
      });
      const sleeper = await breakAt(exportId, step, 'stop');
      await change(exportId, { prefix: '{batch_export_id}/new' });
      await installation.startWorker();
      expect(await untilEnded(installation, exportId)).toMatchObject([
        { status: 'Completed', rows },
      ]);
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
});

describe('an export without a manifest', () => {
  test('replaces its files in place, and turns to manifests and back without a file lost', async () => {
    const exportId = await createS3Export(installation, {
      name: 'bare',
      config: { manifest: false },
    });
    await installation.startWorker();
    await runAgain(exportId, 0);
    expect(await keysOf(exportId)).toEqual([`${stem}.jsonl`]);
    await installation.pool.query(`update events set event = event || '.' where team_id = $1`, [
      team(),
    ]);
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
});

describe('a bucket that denies DeleteObject', () => {
  test('completes the re-run with a warning, and the sweep removes the files once it may', async () => {
    const exportId = await createS3Export(installation, { name: 'undeleted' });
    await installation.startWorker();
    await runAgain(exportId, 0);
    await installation.s3.faults.add({
      match: { operation: 'DeleteObject' },
      times: 1_000,
      effect: { status: 403, code: 'AccessDenied' },
    });
    await installation.pool.query(`update events set event = event || ',' where team_id = $1`, [
      team(),
    ]);
    expect(await runAgain(exportId, 1)).toMatchObject({ status: 'Completed', rows });
    expect((await keysOf(exportId)).sort()).toEqual([
      `${stem}.jsonl`,
      `${stem}.v2.jsonl`,
      `${stem}_manifest.json`,
    ]);
    await until(async () => {
      const { rows: warnings } = await installation.pool.query(
        `select message from log_entries where export_id = $1 and level = 'WARNING'`,
        [exportId],
      );
      return /1 replaced files could not be removed: \S+\.jsonl\. .*s3:DeleteObject for these keys/.test(
        String(warnings[0]?.message),
      );
    });
    await installation.s3.faults.clear();
    await installation.pool.query('update leftover_files set tried_at = null');
    expect(await expectInvariants(installation)).toMatchObject({ rows });
    expect((await keysOf(exportId)).sort()).toEqual([`${stem}.v2.jsonl`, `${stem}_manifest.json`]);
  });
});
