import { afterEach, beforeAll, describe, expect, test } from 'vitest';
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

/** Sequences of kills, freezes and edits that once left a row twice in a bucket, or an incomplete manifest. */

const rows = 50;
const stem = '20240301T000000Z-20240301T010000Z';
const installation = useStage(() =>
  startInstallation({ workers: 0, s3: { buckets: [bucket, 'other'] } }),
);
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
