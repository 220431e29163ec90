import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  createS3Export,
  insertEvents,
  projectPath,
  readRuns,
  retireExports,
  untilEnded,
} from '../../support/exported-events.ts';
import { hourRuns } from '../../support/hour-runs.ts';
import { bucket, type Installation, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { until } from '../../support/until.ts';

/** Sequences of kills, freezes and edits that once left a row twice in a bucket, or an incomplete manifest. */

const rows = 50;
const stem = '20240301T000000Z-20240301T010000Z';

let installation: Installation;
beforeAll(async () => {
  installation = await startInstallation({ workers: 0, s3: { buckets: [bucket, 'other'] } });
  await insertEvents(installation.pool, { team: team(), rows });
});
afterEach(async () => {
  await installation.s3.faults.clear();
  await installation.stopWorkers();
  await retireExports(installation);
});
afterAll(() => installation?.close());

const team = () => installation.tenant.projectIds[0];

const { runAgain, order, change, keysOf, breakAt, wake } = hourRuns(() => installation);

async function touchRows(mark: string) {
  await installation.pool.query(`update events set event = event || $2 where team_id = $1`, [
    team(),
    mark,
  ]);
}

describe('an export without a manifest', () => {
  test('whose worker dies before it removes what was replaced keeps no row twice', async () => {
    const exportId = await createS3Export(installation, {
      name: 'bare',
      config: { manifest: false },
    });
    const first = await installation.startWorker();
    await runAgain(exportId, 0);
    first.kill('SIGTERM');
    await first.waitForExit();
    await change(exportId, { compression: 'gzip' });
    await breakAt(exportId, 'before_removal', 'kill');
    expect((await untilEnded(installation, exportId, { count: 2 })).at(-1)).toMatchObject({
      status: 'Completed',
    });
    await installation.startWorker();
    await until(async () => (await keysOf(exportId)).length === 1, {
      timeoutMs: 60_000,
      message: () => 'only the current file is left',
    });
    expect(await keysOf(exportId)).toEqual([`${stem}.jsonl.gz`]);
  });

  test('that moves to another bucket and back keeps no row twice', async () => {
    const exportId = await createS3Export(installation, {
      name: 'back',
      config: { manifest: false },
    });
    await installation.startWorker();
    await runAgain(exportId, 0);
    await change(exportId, { bucket_name: 'other' });
    await change(exportId, { bucket_name: bucket });
    await touchRows('c');
    expect(await runAgain(exportId, 1)).toMatchObject({ status: 'Completed' });
    expect(await keysOf(exportId)).toHaveLength(1);
  });

  test('that had a manifest for one run which died leaves neither it nor its files', async () => {
    const exportId = await createS3Export(installation, {
      name: 'there and back',
      config: { manifest: false },
    });
    const first = await installation.startWorker();
    await runAgain(exportId, 0);
    first.kill('SIGTERM');
    await first.waitForExit();
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
      { timeoutMs: 60_000, message: () => 'one data file is left' },
    );
    const manifest = JSON.parse(
      (await installation.s3.body(bucket, `${exportId}/${stem}_manifest.json`)).toString(),
    );
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

describe('a commit that sleeps', () => {
  test('does not follow an unchanged run after the export moved away and back', async () => {
    const exportId = await createS3Export(installation, { name: 'sleeper' });
    const first = await installation.startWorker();
    await runAgain(exportId, 0);
    first.kill('SIGTERM');
    await first.waitForExit();
    await change(exportId, { compression: 'gzip' });
    const sleeper = await breakAt(exportId, 'before_manifest', 'stop');
    await change(exportId, { bucket_name: 'other' });
    await change(exportId, { bucket_name: bucket, compression: null });
    await installation.startWorker();
    expect((await untilEnded(installation, exportId, { count: 2 })).at(-1)).toMatchObject({
      status: 'Completed',
    });
    const key = `${exportId}/${stem}_manifest.json`;
    const before = (await installation.s3.body(bucket, key)).toString();
    await wake(sleeper);
    expect((await installation.s3.body(bucket, key)).toString()).toBe(before);
    expect(await expectInvariants(installation)).toMatchObject({ rows });
  });
});

describe('a file that the receipt names', () => {
  test('is not removed, though its key is on record as replaced', async () => {
    const exportId = await createS3Export(installation, { name: 'rolled back' });
    const first = await installation.startWorker();
    await runAgain(exportId, 0);
    first.kill('SIGTERM');
    await first.waitForExit();
    const { pool } = installation;
    const { rows: saved } = await pool.query('select files from receipts where export_id = $1', [
      exportId,
    ]);
    await touchRows('i');
    await breakAt(exportId, 'before_removal', 'kill');
    // The receipt names the replaced file again.
    await pool.query('update receipts set files = $2 where export_id = $1', [
      exportId,
      JSON.stringify(saved[0]?.files),
    ]);
    await pool.query(
      `insert into leftover_files (export_id, data_interval_start, data_interval_end, destination_version, key, generation, manifest_key, uncommitted)
       select export_id, data_interval_start, data_interval_end, destination_version, 'another', 1, manifest_key, false
         from receipts where export_id = $1`,
      [exportId],
    );
    await installation.startWorker();
    await until(
      async () =>
        (
          await pool.query(
            `select from leftover_files where key = 'another' and deleted_at is null`,
          )
        ).rowCount === 0,
      { timeoutMs: 60_000, message: () => 'the sweep has removed what the receipt does not name' },
    );
    expect(await keysOf(exportId)).toContain(`${stem}.jsonl`);
  });
});

describe('409 of a store', () => {
  test('two collisions do not make the store one without conditions', async () => {
    const exportId = await createS3Export(installation, { name: 'collides' });
    await installation.s3.faults.add({
      match: { operation: 'PutObject', key: /_manifest/ },
      times: 2,
      effect: { status: 409, code: 'ConditionalRequestConflict' },
    });
    await installation.startWorker();
    const run = await runAgain(exportId, 0);
    const { rows: found } = await installation.pool.query(
      'select store_traits as traits from batch_exports where id = $1',
      [exportId],
    );
    expect(run).toMatchObject({ status: 'Completed', rows });
    expect(found[0]?.traits).toMatchObject({ ifNoneMatch: true });
  });
});

describe('two exports with one prefix', () => {
  test('does not overwrite a file that another export has named', async () => {
    const named = await createS3Export(installation, {
      name: 'named',
      config: { prefix: 'shared' },
    });
    const bare = await createS3Export(installation, {
      name: 'bare',
      config: { prefix: 'shared', manifest: false, exclude_events: ['event 1'] },
    });
    await installation.startWorker();
    expect(await runAgain(named, 0)).toMatchObject({ status: 'Completed' });
    const run = await runAgain(bare, 0);
    expect(await installation.s3.namedKeyViolations()).toEqual([]);
    expect(run).toMatchObject({ status: 'Failed', errorCode: 'destination.key_taken' });
  });

  test('do not tear each other at a store that completes without a condition', async () => {
    await installation.s3.setQuirks({ completeConditions: 'ignore' });
    const slow = await createS3Export(installation, { name: 'slow', config: { prefix: 'one' } });
    const fast = await createS3Export(installation, {
      name: 'fast',
      config: { prefix: 'one', exclude_events: ['event 1'] },
    });
    const worker = await installation.startWorker({
      FAILPOINTS: 'before_complete=hold@1',
    });
    await order(slow);
    await until(() => worker.output().includes('=hold'));
    const other = await installation.startWorker();
    expect(await runAgain(fast, 0)).toMatchObject({ status: 'Completed' });
    worker.kill('SIGWINCH');
    other.kill('SIGTERM');
    expect((await untilEnded(installation, slow)).at(-1)).toMatchObject({
      status: 'Failed',
      errorCode: 'destination.key_taken',
    });
    expect(await installation.s3.namedKeyViolations()).toEqual([]);
    await installation.s3.setQuirks({});
  });
});

describe('credentials that may only write', () => {
  test('survive a worker that dies after its manifest', async () => {
    const exportId = await createS3Export(installation, { name: 'write only' });
    for (const operation of ['GetObject', 'HeadObject'] as const) {
      await installation.s3.faults.add({
        match: { operation },
        times: 10_000,
        effect: { status: 403, code: 'AccessDenied' },
      });
    }
    await breakAt(exportId, 'after_manifest', 'kill');
    await installation.startWorker();
    const [run] = await untilEnded(installation, exportId);
    expect(run).toMatchObject({ status: 'Completed' });
  });
});

describe('a run that is cancelled after a commit of it has died', () => {
  test('leaves a true manifest, which is replaced by the next run', async () => {
    const exportId = await createS3Export(installation, { name: 'cancelled' });
    await breakAt(exportId, 'after_manifest', 'kill');
    const second = await installation.startWorker({ FAILPOINTS: 'claim=stop@1' });
    await until(() => second.output().includes('=stop'), {
      timeoutMs: 60_000,
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
    const key = `${exportId}/${stem}_manifest.json`;
    const manifest = JSON.parse((await installation.s3.body(bucket, key)).toString());
    expect(manifest).toMatchObject({ run_id: next?.id });
    expect(await expectInvariants(installation)).toMatchObject({ rows });
  });
});

describe('an export that is deleted while a run commits, and whose worker dies', () => {
  test('is not exported again: its run records the manifest that is current, or ends', async () => {
    const ends = { after_manifest: 'Completed', before_manifest: 'Cancelled' } as const;
    const ids: string[] = [];
    for (const step of ['after_manifest', 'before_manifest'] as const) {
      const exportId = await createS3Export(installation, { name: step });
      ids.push(exportId);
      const { pool, client } = installation;
      const worker = await installation.startWorker({ FAILPOINTS: `${step}=stop@1` });
      await order(exportId);
      await until(() => worker.output().includes('=stop'), { timeoutMs: 60_000 });
      const answer = await client.delete(`${projectPath(installation)}/batch_exports/${exportId}/`);
      expect(answer.status, answer.text).toBe(204);
      worker.kill('SIGKILL');
      await worker.waitForExit();
      const left = await keysOf(exportId);
      expect(left).toContain(`${stem}.jsonl`);
      await pool.query('update runs set lease_expires_at = now() where lease_holder is not null');
      await installation.startWorker();
      const statuses = async () => {
        const { rows } = await pool.query<{ status: string }>(
          'select status from runs where export_id = $1',
          [exportId],
        );
        return rows.map(({ status }) => status);
      };
      await until(async () => !(await statuses()).includes('Running'), { timeoutMs: 60_000 });
      expect(await statuses()).toEqual([ends[step]]);
      expect(await keysOf(exportId)).toEqual(left);
      await installation.stopWorkers();
    }
    const { rows } = await installation.pool.query(
      'select export_id as id from receipts where export_id = any ($1::uuid[])',
      [ids],
    );
    expect(rows).toEqual([{ id: ids[0] }]);
  });
});
